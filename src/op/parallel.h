// SPDX-License-Identifier: Apache-2.0
//
// in_parallel(): work in pieces, shared out among a few threads that live for this one job. What
// is not part of an operator's call works so: packing, and the references.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "tandem/status.h"

namespace tandem::op {

inline constexpr int kMaxThreads = 1024;

/// The pieces of a job that nobody has taken yet. Thread-safe.
class Pieces {
 public:
  explicit Pieces(std::int64_t count) : count_(count) {}
  /// The next one, in ascending order; empty when all are taken.
  std::optional<std::int64_t> take() {
    // Relaxed: pieces are independent, and the join at the end orders the rest.
    const std::int64_t piece = next_.fetch_add(1, std::memory_order_relaxed);
    return piece < count_ ? std::optional(piece) : std::nullopt;
  }

 private:
  std::atomic<std::int64_t> next_{0};
  std::int64_t count_;
};

/// Calls work(pieces), which takes pieces until none is left, on up to `threads` ≥ 1 threads, the
/// calling one included; where the system refuses threads, on the calling one alone. Returns when
/// all have ended, with the first failure. What work() throws is a failure too (guarded()).
Status in_parallel(std::int64_t pieces, int threads, const std::function<Status(Pieces&)>& work);

}  // namespace tandem::op
