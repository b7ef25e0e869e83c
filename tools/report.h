// SPDX-License-Identifier: Apache-2.0
//
// Texts for people: the seed's report, and the words that gen, run and bench share.
#pragma once

#include <string>
#include <vector>

#include "job.h"
#include "operators.h"
#include "tandem/measure.h"
#include "verification.h"

namespace tandem::tool {

/// "AllGather GEMM (shm): 2 ranks, M = 2048, K = 2048, N = 1024, f16 -> f32".
[[nodiscard]] std::string headline(const Job& job);
/// What a verification that passed has compared.
[[nodiscard]] std::string verification_text(const Job& job, const Verification& v);
[[nodiscard]] std::string bench_text(const Job& job, const Measurement& measured,
                                     double peak_rss_mib);

/// Median, least and most of some milliseconds; the order is lost.
[[nodiscard]] Timing summarize(std::vector<double> samples);

/// "1 rank", "2 ranks".
[[nodiscard]] std::string counted(std::int64_t count, const std::string& noun);

}  // namespace tandem::tool
