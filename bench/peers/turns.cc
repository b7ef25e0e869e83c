// SPDX-License-Identifier: Apache-2.0
//
// The round robin. Start reading at Turns::run().
#include "bench/peers/turns.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <thread>
#include <utility>

namespace tandem::bench {
namespace {

constexpr int kMinRounds = 3;  // fewer have no median worth the name
constexpr double kMaxRepeats = 1e6;

double now(bool cpu_clock) {
  std::timespec t{};
  clock_gettime(cpu_clock ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

int Turns::add(std::function<void()> work, double units, double once_s) {
  entries_.push_back(
      {.work = std::move(work), .units = units, .once_s = once_s, .repeats = 1, .rates = {}});
  return static_cast<int>(entries_.size()) - 1;
}

double Turns::seconds(Entry& entry, int repeats) const {
  if (settings_.settle_s > 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(settings_.settle_s));
  }
  const double start = now(settings_.cpu_clock);
  for (int i = 0; i < repeats; ++i) entry.work();
  return now(settings_.cpu_clock) - start;
}

void Turns::run() {
  const double start = now(false);
  for (Entry& entry : entries_) {
    double once = entry.once_s > settings_.min_sample_s ? entry.once_s : seconds(entry, 1);
    // The first run may have met cold caches and untouched pages.
    if (once < settings_.min_sample_s) once = std::min(once, seconds(entry, 1));
    const double repeats = std::ceil(settings_.min_sample_s / std::max(once, 1e-9));
    entry.repeats = static_cast<int>(std::clamp(repeats, 1.0, kMaxRepeats));
    entry.rates.clear();
  }
  const auto count = entries_.size();
  for (rounds_ = 0; rounds_ < settings_.rounds; ++rounds_) {
    if (rounds_ >= kMinRounds && settings_.budget_s > 0 &&
        now(false) - start > settings_.budget_s) {
      break;
    }
    // Another one begins each round, so that nobody always follows the same neighbour.
    for (std::size_t i = 0; i < count; ++i) {
      Entry& entry = entries_[(i + static_cast<std::size_t>(rounds_)) % count];
      entry.rates.push_back(entry.units * entry.repeats / seconds(entry, entry.repeats));
    }
  }
}

double Turns::rate(int id) const { return median(rates(id)); }

double Turns::ratio(int id, int to) const {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < rates(id).size(); ++round) {
    ratios.push_back(rates(id)[round] / rates(to)[round]);
  }
  return median(std::move(ratios));
}

}  // namespace tandem::bench
