// SPDX-License-Identifier: Apache-2.0
//
// Bandwidth: how fast this machine reads and copies memory that no cache holds. The floor of a
// multiply with few rows is the bytes of its weights over the first, that of packing the second.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/peers/problem.h"
#include "tandem/status.h"

namespace tandem::bench {

class Bandwidth {
 public:
  /// Reserves and touches memory of at least four times the last-level cache, and finds out which
  /// way to read it is the fastest on one thread.
  Status prepare();
  /// Reads all of it once with `threads` threads; returns the bytes.
  double read(int threads) const;
  /// Copies one half into the other; returns the bytes copied.
  double copy();

 private:
  Buffer memory_;
  int way_ = 0;
};

}  // namespace tandem::bench
