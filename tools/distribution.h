// SPDX-License-Identifier: Apache-2.0
//
// How the ratios of many shapes are spread: what `bench --shapes` says at its end, as text and, by
// report_json.cc, as JSON.
#pragma once

#include <string>
#include <vector>

#include "bench_table.h"

namespace tandem::tool {

struct Spread {
  std::string key;    ///< in JSON
  std::string label;  ///< in text
  std::size_t shapes = 0;
  double min = 0, p10 = 0, median = 0, p90 = 0, max = 0;
  struct Worst {
    Shape shape;
    double value = 0;
  };
  std::vector<Worst> worst;  ///< up to three, the worst first
};

/// A quantile with linear interpolation between the two nearest values; `sorted` is not empty.
[[nodiscard]] double quantile(const std::vector<double>& sorted, double fraction);

/// Of the rows with figures: pipelined_over_max (of all, and of those above 1 ms), the overlap
/// efficiency, the speedup, and, of shapes under 1 ms, pipelined − max(comm, compute) in µs. A
/// shape is under 1 ms when both compute-only and comm-only are.
[[nodiscard]] std::vector<Spread> spreads(const std::vector<BenchRow>& rows);

[[nodiscard]] std::string spreads_text(const std::vector<Spread>& all);

}  // namespace tandem::tool
