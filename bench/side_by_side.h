// SPDX-License-Identifier: Apache-2.0
//
// Side by side: a piece of work and the ceiling it is measured against, taken in turns, so that
// their ratio holds on a machine whose clock and neighbours change by the second.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include <benchmark/benchmark.h>

namespace tandem::bench {

template <class Function>
double seconds_of(Function&& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// `work()` and `ceiling()` each return how many units (operations, bytes) they did. Reports the
/// median rates in units of 1e9 per second, and the median of the ratios of neighbours. Needs
/// UseManualTime().
template <class Work, class Ceiling>
void side_by_side(benchmark::State& state, Work&& work, Ceiling&& ceiling) {
  std::vector<double> work_rates, ceiling_rates, ratios;
  work();
  for (auto _ : state) {
    double units = 0;
    const double before = seconds_of([&] { units = ceiling(); });
    const double ceiling_rate = units / before;
    const double seconds = seconds_of([&] { units = work(); });
    state.SetIterationTime(seconds);
    work_rates.push_back(units / seconds * 1e-9);
    ceiling_rates.push_back(ceiling_rate * 1e-9);
    ratios.push_back(work_rates.back() / ceiling_rates.back());
  }
  state.counters["G/s"] = median(work_rates);
  state.counters["ceiling"] = median(ceiling_rates);
  state.counters["ratio"] = median(ratios);
}

}  // namespace tandem::bench
