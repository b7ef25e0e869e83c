// SPDX-License-Identifier: Apache-2.0
//
// Quantiles and the worst of each ratio.
#include "distribution.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

namespace tandem::tool {
namespace {

constexpr std::size_t kWorst = 3;

double longer_ms(const BenchRow& row) {
  return std::max(row.number("compute_only_ms"), row.number("comm_only_ms"));
}

struct Ratio {
  const char *key, *label;
  std::function<bool(const BenchRow&)> counts;
  std::function<double(const BenchRow&)> value;
  bool large_is_bad;
};

Spread spread(const Ratio& ratio, const std::vector<BenchRow>& rows) {
  Spread result{.key = ratio.key, .label = ratio.label};
  std::vector<Spread::Worst> all;
  for (const BenchRow& row : rows) {
    if (row.measured() && ratio.counts(row)) all.push_back({row.shape(), ratio.value(row)});
  }
  if (all.empty()) return result;
  std::stable_sort(all.begin(), all.end(), [&](const auto& x, const auto& y) {
    return ratio.large_is_bad ? x.value > y.value : x.value < y.value;
  });
  result.worst.assign(all.begin(),
                      all.begin() + static_cast<std::ptrdiff_t>(std::min(kWorst, all.size())));
  std::vector<double> sorted;
  for (const auto& each : all) sorted.push_back(each.value);
  std::sort(sorted.begin(), sorted.end());
  result.shapes = sorted.size();
  result.min = sorted.front();
  result.p10 = quantile(sorted, 0.1);
  result.median = quantile(sorted, 0.5);
  result.p90 = quantile(sorted, 0.9);
  result.max = sorted.back();
  return result;
}

}  // namespace

double quantile(const std::vector<double>& sorted, double fraction) {
  const double at = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(at));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

std::vector<Spread> spreads(const std::vector<BenchRow>& rows) {
  const auto any = [](const BenchRow&) { return true; };
  const auto is_short = [](const BenchRow& row) { return longer_ms(row) < 1; };
  const auto column = [](const char* name) {
    return [name](const BenchRow& row) { return row.number(name); };
  };
  const Ratio ratios[] = {
      {"pipelined_over_max", "pipelined/max", any, column("pipelined_over_max"), true},
      {"pipelined_over_max_above_1ms", "  above 1 ms", std::not_fn(is_short),
       column("pipelined_over_max"), true},
      {"overlap_efficiency", "overlap efficiency", any, column("overlap_efficiency"), false},
      {"speedup", "speedup", any, column("speedup"), false},
      {"excess_us_under_1ms", "pipelined-max, us (under 1 ms)", is_short,
       [](const BenchRow& row) { return (row.number("pipelined_ms") - longer_ms(row)) * 1000; },
       true}};
  std::vector<Spread> all;
  for (const Ratio& ratio : ratios) all.push_back(spread(ratio, rows));
  return all;
}

std::string spreads_text(const std::vector<Spread>& all) {
  std::string text = fmt::format("{:<32}{:>6}{:>9}{:>9}{:>9}{:>9}{:>9}  worst\n", "", "shapes",
                                 "min", "p10", "median", "p90", "max");
  for (const Spread& s : all) {
    text += fmt::format("{:<32}{:>6}", s.label, s.shapes);
    if (s.shapes == 0) {
      text += '\n';
      continue;
    }
    for (double value : {s.min, s.p10, s.median, s.p90, s.max}) {
      text += fmt::format("{:>9.3f}", value);
    }
    const char* separator = "  ";
    for (const Spread::Worst& worst : s.worst) {
      text += fmt::format("{}{}x{}x{} {:.3f}", separator, worst.shape.m, worst.shape.k,
                          worst.shape.n, worst.value);
      separator = ", ";
    }
    text += '\n';
  }
  return text;
}

}  // namespace tandem::tool
