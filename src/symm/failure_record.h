// SPDX-License-Identifier: Apache-2.0
//
// FailureRecord: the first failure of a world or a window, in shared memory, so that every rank
// returns the same error. Written once; cleared only where all ranks agree to (a refusal). A rank
// may be killed at any instant and harm nobody: it writes what it has to say into a slot of its
// own, and then one exchange of one word makes that slot the one that all read. Window, World and
// Inbox publish; wait() reads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "symm/doorbell.h"
#include "symm/failure_text.h"
#include "tandem/status.h"

namespace tandem::symm {

/// A rank's slot. Only threads of that rank's process write it.
struct alignas(kCacheLine) FailureSlot {
  FailureText text;
};

/// Whose slot is the failure that stands: 0 for none, else 1 + the rank.
struct alignas(kCacheLine) FailureChoice {
  std::atomic<std::uint32_t> chosen{0};
};

/// One process's view of a choice and of the slots of all ranks, `stride` bytes apart. Thread-safe.
class FailureRecord {
 public:
  FailureRecord(FailureChoice& choice, FailureSlot& slot_of_0, std::size_t stride, int ranks)
      : choice_(choice),
        slots_(reinterpret_cast<std::byte*>(&slot_of_0)),
        stride_(stride),
        ranks_(ranks) {}

  /// Publishes `failure` in the slot of `writer`, a rank of this process, unless one stands
  /// already; whether it is the one that stands. Allocates nothing. The caller rings the doorbells.
  bool publish(int writer, const FailureText& failure);

  /// Ok, or the failure that stands. One acquire load when there is none.
  [[nodiscard]] Status read() const;
  [[nodiscard]] bool published() const { return chosen() != 0; }
  /// Whether the failure that stands is a refusal: it ended a call, and the next may succeed.
  [[nodiscard]] bool refused() const;
  /// No rank may be looking.
  void clear() { choice_.chosen.store(0, std::memory_order_relaxed); }

 private:
  [[nodiscard]] std::uint32_t chosen() const {
    // Acquire: pairs with the release in publish(), so that the slot is complete.
    return choice_.chosen.load(std::memory_order_acquire);
  }
  [[nodiscard]] FailureSlot& slot(std::uint32_t rank) const {
    return *reinterpret_cast<FailureSlot*>(slots_ + rank * stride_);
  }
  [[nodiscard]] FailureText text(std::uint32_t chosen) const;

  FailureChoice& choice_;
  std::byte* const slots_;
  const std::size_t stride_;
  const int ranks_;
  std::mutex writing_;  // threads of one process share a slot
};

}  // namespace tandem::symm
