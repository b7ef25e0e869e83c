// SPDX-License-Identifier: Apache-2.0
//
// FailureRecord: the first failure of a world or a window, in shared memory, so that every rank
// returns the same error. Written once, never cleared.
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
  /// Publishes `failure` unless one stands already. The caller rings the doorbells.
  Published publish(const Status& failure);

  /// Ok, or the failure that stands. One acquire load when there is none.
  [[nodiscard]] Status read() const;
  [[nodiscard]] bool published() const {
    // Acquire: pairs with the release in publish(), so that the text is complete.
    return state_.load(std::memory_order_acquire) == kPublished;
  }

 private:
  static constexpr std::uint32_t kNone = 0, kWriting = 1, kPublished = 2;
  // Room for the longest message of the library, which names two ranks and two values.
  static constexpr std::size_t kTextBytes = 1024;

  std::atomic<std::uint32_t> state_{kNone};
  // Written by the rank that moved state_ to kWriting, read once it is kPublished.
  std::uint32_t length_ = 0;
  StatusCode code_ = StatusCode::kOk;
  bool has_wait_ = false;
  WaitDetail wait_;
  char text_[kTextBytes] = {};
};

}  // namespace tandem::symm
