// SPDX-License-Identifier: Apache-2.0
//
// Side by side: a piece of work and the ceiling it is measured against, taken in turns, so that
// their ratio holds on a machine whose clock and neighbours change by the second. Times are the
// calling thread's own, so that a slice in which another process had the core does not count.
#pragma once

#include <algorithm>
#include <ctime>
#include <vector>

#include <benchmark/benchmark.h>

namespace tandem::bench {

inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Function>
double seconds_of(Function&& function) {
  const double start = thread_seconds();
  function();
  return thread_seconds() - start;
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
