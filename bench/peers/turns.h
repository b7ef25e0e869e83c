// SPDX-License-Identifier: Apache-2.0
//
// Turns: times several pieces of work round robin. In every round each one takes its turn, so that
// a change of clock frequency or a busy neighbour meets all of them; figures are medians over
// rounds, and a ratio is the median of the ratios within rounds.
#pragma once

#include <functional>
#include <vector>

namespace tandem::bench {

struct TurnSettings {
  int rounds = 9;
  double min_sample_s = 0.005;  ///< a turn repeats its work until it takes this long
  double budget_s = 0;          ///< no new round after this time (but at least 3); 0 = no limit
  /// CPU time of the calling thread instead of wall time: leaves out what other processes took.
  /// For work on one thread only.
  bool cpu_clock = false;
  /// Idle time before each turn. Thread pools poll for some time after their work is done and would
  /// take a core from the next in turn.
  double settle_s = 0;
};

class Turns {
 public:
  explicit Turns(TurnSettings settings) : settings_(settings) {}

  /// `work` does `units` of something (operations, bytes). Returns the number to ask with. When it
  /// has been run before, `once_s` says how long that took: long work is then not run to find out.
  int add(std::function<void()> work, double units, double once_s = 0);
  /// Sets the time budget of run().
  void limit(double budget_s) { settings_.budget_s = budget_s; }
  void run();

  [[nodiscard]] int rounds() const { return rounds_; }
  [[nodiscard]] double rate(int id) const;  ///< units per second, median
  [[nodiscard]] double ratio(int id, int to) const;
  /// Per round, in the order of the rounds.
  [[nodiscard]] const std::vector<double>& rates(int id) const {
    return entries_[static_cast<std::size_t>(id)].rates;
  }

 private:
  struct Entry {
    std::function<void()> work;
    double units = 0;
    double once_s = 0;
    int repeats = 1;
    std::vector<double> rates;
  };
  double seconds(Entry& entry, int repeats) const;

  TurnSettings settings_;
  std::vector<Entry> entries_;
  int rounds_ = 0;
};

[[nodiscard]] double median(std::vector<double> values);

}  // namespace tandem::bench
