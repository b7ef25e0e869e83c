// SPDX-License-Identifier: Apache-2.0
//
// A progress bar on standard error: only on a terminal that can draw (TERM is set, and not "dumb"),
// within its width, and only for work of more than about two seconds, so that short commands stay
// silent and logs stay clean.
#pragma once

#include <chrono>
#include <string>

namespace tandem::tool {

class Progress {
 public:
  /// `label` says what takes the time. Not thread-safe.
  Progress(bool enabled, std::string label);
  ~Progress();  ///< wipes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(double fraction);

 private:
  using Clock = std::chrono::steady_clock;
  const bool enabled_;
  const std::string label_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_{};
  bool visible_ = false;
};

}  // namespace tandem::tool
