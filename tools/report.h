// SPDX-License-Identifier: Apache-2.0
//
// Texts and JSON objects of gen, run and bench: what all have in common, and the seed's report.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "job.h"
#include "operators.h"
#include "tandem/measure.h"

namespace tandem::tool {

using Json = nlohmann::ordered_json;

/// Pretty-printed, ending in a newline.
[[nodiscard]] std::string text_of(const Json& json);

/// Keys of the problem: op, ranks, m, k, n, rows, types, layout, seed.
[[nodiscard]] Json problem_json(const Job& job);
/// The same and how it was computed: transport, threads, tiles, kernel.
[[nodiscard]] Json run_json(const Job& job, const Prepared& prepared);
[[nodiscard]] Json timing_json(const Timing& timing);
[[nodiscard]] Json bench_json(const Job& job, const Measurement& measured, double peak_rss_mib);

/// "AllGather GEMM (shm): 2 ranks, M = 2048, K = 2048, N = 1024, f16 -> f32".
[[nodiscard]] std::string headline(const Job& job);
[[nodiscard]] std::string bench_text(const Job& job, const Measurement& measured,
                                     double peak_rss_mib);

/// Median, least and most of some milliseconds; the order is lost.
[[nodiscard]] Timing summarize(std::vector<double> samples);

/// "1 rank", "2 ranks".
[[nodiscard]] std::string counted(std::int64_t count, const std::string& noun);

}  // namespace tandem::tool
