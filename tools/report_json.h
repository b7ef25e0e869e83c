// SPDX-License-Identifier: Apache-2.0
//
// What --json prints: one object for each command, ending in a newline. The implementation is, with
// manifest.cc, the only file that knows nlohmann-json.
#pragma once

#include <string>
#include <vector>

#include "commands.h"
#include "job.h"
#include "manifest.h"
#include "operators.h"
#include "plan_options.h"
#include "tandem/measure.h"
#include "tandem/reference.h"
#include "tandem/system.h"
#include "verification.h"

namespace tandem::tool {

[[nodiscard]] std::string info_json(const SystemInfo& system);
[[nodiscard]] std::string gen_json(const Job& job, const std::vector<DataFile>& files, bool reused);
[[nodiscard]] std::string run_json(const Job& job, const Prepared& prepared, const Timing& timing,
                                   const Verification& verification,
                                   const std::vector<std::int64_t>& different);
[[nodiscard]] std::string bench_json(const Job& job, const Measurement& measured,
                                     double peak_rss_mib);
[[nodiscard]] std::string check_json(const CheckOptions& options, const Comparison& comparison);
[[nodiscard]] std::string plan_json(const PlanReport& report);
/// {"error": {code, message, exit_code}}
[[nodiscard]] std::string error_json(const Outcome& outcome);

}  // namespace tandem::tool
