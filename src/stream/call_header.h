// SPDX-License-Identifier: Apache-2.0
//
// The header of a call: what each rank believes it is taking part in, put into every peer's window
// before the first chunk. Every rank compares its peers' beliefs with its own before it trusts a
// single counter, so that ranks that disagree get an error that names them and never a wrong tail.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "symm/window.h"
#include "tandem/status.h"
#include "tandem/world.h"

namespace tandem::stream {

/// Plain bytes in shared memory. Unused entries of `rows` are zero.
struct CallHeader {
  std::uint64_t call = 0;  ///< number of the call, from 1
  std::int32_t ranks = 0;
  std::int32_t phase = 0;    ///< what kind of call (op::Phase)
  std::int32_t refused = 0;  ///< 1: the rank refuses, and will say why; nothing else counts
  std::int32_t spare = 0;
  std::int64_t k = 0;
  std::array<std::int64_t, kMaxRanks> rows{};
};

/// Headers of successive calls take this many slots in turn. Two need no credit: who begins call c
/// has ended c − 1, so it has seen every peer's header of c − 1, so every peer has ended c − 2.
inline constexpr std::uint64_t kHeaderSlots = 2;

/// The headers of one call, seen from one rank. Thread-safe.
class CallHeaders {
 public:
  /// `offset` of the slot's header area in every part; `counter0` the first of size() header
  /// counters, each of which reaches `expected` with the header of this call. `own` must outlive
  /// this.
  CallHeaders(symm::Window& window, const CallHeader& own, std::uint32_t expected,
              std::size_t offset, int counter0)
      : window_(window), own_(own), expected_(expected), offset_(offset), counter0_(counter0) {}

  /// Puts this rank's header into the peer's part and notifies it.
  void publish(int peer);

  /// True once the source's header is here and agrees. Once the headers of all ranks are here, a
  /// disagreement is published as the window's failure, which every wait then returns: not before,
  /// since a rank that is still in the call before this one must be able to end it. A rank that
  /// refuses the call publishes that itself.
  bool verified(int source);
  /// Waits until the headers of all ranks are here, whatever they say.
  Status wait_for_all(std::chrono::milliseconds timeout) const;

  /// For a wait: the source's header is still to come.
  [[nodiscard]] WaitDetail detail(int source) const;

 private:
  [[nodiscard]] bool arrived(int source) const;
  [[nodiscard]] bool all_arrived() const;
  [[nodiscard]] int counter(int source) const { return counter0_ + source; }
  [[nodiscard]] std::size_t slot(int source) const {
    return offset_ + static_cast<std::size_t>(source) * sizeof(CallHeader);
  }

  symm::Window& window_;
  const CallHeader& own_;
  std::uint32_t expected_;
  std::size_t offset_;
  int counter0_;
  std::array<std::atomic<bool>, kMaxRanks> verified_{};
};

/// Ok, or kMismatch naming both ranks and both values.
[[nodiscard]] Status compare_headers(const CallHeader& own, int own_rank, const CallHeader& theirs,
                                     int their_rank);

}  // namespace tandem::stream
