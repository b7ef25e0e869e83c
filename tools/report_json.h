// SPDX-License-Identifier: Apache-2.0
//
// What --json prints: one object for each command, ending in a newline. The implementation,
// manifest.cc and trial.cc are the files that know nlohmann-json.
#pragma once

#include <string>
#include <vector>

#include "bench_table.h"
#include "commands.h"
#include "distribution.h"
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
/// Configuration, distribution and all lines of the table.
[[nodiscard]] std::string bench_list_json(const Job& job, const BenchTable& table,
                                          const std::vector<Spread>& spreads,
                                          const std::vector<std::string>& skipped);
[[nodiscard]] std::string check_json(const CheckOptions& options, const Comparison& comparison);
[[nodiscard]] std::string plan_json(const PlanReport& report);
/// {"error": {code, message, exit_code}}
[[nodiscard]] std::string error_json(const Outcome& outcome);

}  // namespace tandem::tool
