// SPDX-License-Identifier: Apache-2.0
//
// Deadline: the one type for "until when". Timeouts come from callers in milliseconds and may be as
// large as the type holds; here, and nowhere else, they become a moment of the clock, without
// overflow. Every bounded wait of the library takes one.
#pragma once

#include <algorithm>
#include <chrono>

#include "platform/park.h"

namespace tandem::platform {

class Deadline {
 public:
  /// `timeout` from now; negative ones are over, those beyond a century are a century.
  [[nodiscard]] static Deadline after(std::chrono::milliseconds timeout) {
    constexpr std::chrono::milliseconds kCentury = std::chrono::hours(24 * 365 * 100);
    return Deadline(Clock::now() + std::clamp(timeout, std::chrono::milliseconds(0), kCentury));
  }
  /// `timeout + more`, each non-negative, from now.
  [[nodiscard]] static Deadline after(std::chrono::milliseconds timeout,
                                      std::chrono::milliseconds more) {
    const bool fits = timeout < std::chrono::milliseconds::max() - more;
    return after(fits ? timeout + more : std::chrono::milliseconds::max());
  }

  [[nodiscard]] bool passed(Clock::time_point now = Clock::now()) const { return now >= moment_; }
  [[nodiscard]] Clock::time_point moment() const { return moment_; }
  /// At least 0.
  [[nodiscard]] Clock::duration left(Clock::time_point now = Clock::now()) const {
    return std::max(moment_ - now, Clock::duration::zero());
  }
  /// The earlier of the two.
  [[nodiscard]] Clock::time_point or_before(Clock::time_point other) const {
    return std::min(moment_, other);
  }

 private:
  explicit Deadline(Clock::time_point moment) : moment_(moment) {}
  Clock::time_point moment_;
};

}  // namespace tandem::platform
