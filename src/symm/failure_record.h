// SPDX-License-Identifier: Apache-2.0
//
// FailureRecord: the first failure of a world or a window, in shared memory, so that every rank
// returns the same error. Written once; cleared only where all ranks agree to (a refusal).
#pragma once

#include <atomic>
#include <cstdint>

#include "symm/doorbell.h"
#include "tandem/status.h"

namespace tandem::symm {

class alignas(kCacheLine) FailureRecord {
 public:
  struct Published {
    Status standing;     ///< the failure that stands
    bool first = false;  ///< it is the one that was given now
  };
  /// Publishes `failure` unless one stands already. The caller rings the doorbells. `refused`: it
  /// ended a call, and the next one may succeed.
  Published publish(const Status& failure, bool refused = false);

  /// Ok, or the failure that stands. One acquire load when there is none.
  [[nodiscard]] Status read() const;
  [[nodiscard]] bool published() const {
    // Acquire: pairs with the release in publish(), so that the text is complete.
    return state_.load(std::memory_order_acquire) == kPublished;
  }
  /// Whether the failure that stands is a refusal.
  [[nodiscard]] bool refused() const { return published() && refused_; }
  /// No rank may be looking.
  void clear() { state_.store(kNone, std::memory_order_relaxed); }

 private:
  static constexpr std::uint32_t kNone = 0, kWriting = 1, kPublished = 2;
  // Room for the longest message of the library, which names two ranks and two values.
  static constexpr std::size_t kTextBytes = 1024;

  std::atomic<std::uint32_t> state_{kNone};
  // Written by the rank that moved state_ to kWriting, read once it is kPublished.
  std::uint32_t length_ = 0;
  StatusCode code_ = StatusCode::kOk;
  bool has_wait_ = false;
  bool refused_ = false;
  WaitDetail wait_;
  char text_[kTextBytes] = {};
};

}  // namespace tandem::symm
