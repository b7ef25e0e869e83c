// SPDX-License-Identifier: Apache-2.0
//
// Doorbell: where the threads of one rank sleep while they wait for words that other ranks change.
// It lies in shared memory, one per rank and region. A sender that changes a word rings only if
// somebody sleeps. Used by world.cc, window.cc and waiting.cc; start reading at the argument below.
//
//   sender                                 sleeper
//   S1  word.fetch_add    (seq_cst)        W1  sleepers.fetch_add (seq_cst)
//   S2  sleepers.load     (seq_cst)        W2  rings.load         (seq_cst)
//   S3  if not 0: rings.fetch_add, wake    W3  word.load          (seq_cst): done?
//                                          W4  park while rings still has the value of W2
//
// No wake-up is lost. All these are seq_cst, so they have one total order. If S1 precedes W3 in it,
// W3 sees the change. Otherwise W1 precedes W3 precedes S1 precedes S2, so S2 sees the sleeper and
// rings, and rings changed after W2, so that W4 does not sleep or is woken. With anything weaker
// S2 could move ahead of S1 and W3 ahead of W1: each side would miss the other.
#pragma once

#include <atomic>
#include <cstdint>

#include "platform/park.h"

namespace tandem::symm {

/// Two cores' caches exchange memory in units of this size.
inline constexpr std::size_t kCacheLine = 64;

struct alignas(kCacheLine) Doorbell {
  std::atomic<std::uint32_t> rings{0};
  std::atomic<std::uint32_t> sleepers{0};

  /// S2 and S3, after a seq_cst change of an awaited word.
  void ring_if_asleep() {
    if (sleepers.load(std::memory_order_seq_cst) != 0) ring();
  }

  /// For changes of any other kind: what the caller wrote before is seen by whoever reads the new
  /// `rings` in W2 (release, acquire), and whoever read the old one does not sleep.
  void ring() {
    rings.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) != 0) platform::unpark_all(rings);
  }
};

/// Registers the calling thread as a sleeper (W1) as long as it lives.
class Sleeper {
 public:
  explicit Sleeper(Doorbell& bell) : bell_(bell) {
    bell_.sleepers.fetch_add(1, std::memory_order_seq_cst);
  }
  ~Sleeper() {
    // Relaxed: a sender that still sees the sleeper only makes a system call for nothing.
    bell_.sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

 private:
  Doorbell& bell_;
};

}  // namespace tandem::symm
