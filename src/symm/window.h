// SPDX-License-Identifier: Apache-2.0
//
// Window: the same-sized region of every rank that every rank can address, and the verbs on it:
// put, notify, test, wait. Counters only grow; the order is put (plain writes) → notify (release) →
// test / wait (acquire) → read. Source: TPUT, TNOTIFY, TTEST, TWAIT of the PTO instruction set.
//
// A rank that waits sleeps on its part's doorbell, one word for all its counters, so that it can
// wait for "any of these"; notify() rings it only if somebody sleeps there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "platform/park.h"
#include "tandem/status.h"

namespace tandem::symm {

class World;

/// True when a counter that only grows has reached `target`, correct across wrap-around as long as
/// the two are less than 2^31 apart.
[[nodiscard]] inline bool reached(std::uint32_t value, std::uint32_t target) {
  return static_cast<std::int32_t>(value - target) >= 0;
}

struct WindowSpec {
  std::size_t bytes = 0;  ///< payload of each rank's part
  int counters = 0;       ///< counters of each rank's part, each on a cache line of its own
};

class Window {
 public:
  virtual ~Window() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::size_t bytes() const = 0;
  /// Payload of a rank's part, 64-byte aligned (page-aligned). Writes by one rank are seen by
  /// another after notify → wait.
  virtual std::byte* data(int rank) const = 0;

  /// Copies into a peer's part (or one's own).
  virtual void put(int peer, std::size_t offset, const std::byte* from, std::size_t bytes) = 0;
  /// Adds to a counter of a peer's part, after all earlier puts of this thread (release), and
  /// wakes that peer if it sleeps.
  virtual void notify(int peer, int counter, std::uint32_t amount = 1) = 0;
  /// A counter of this rank's own part (acquire: pairs with notify).
  virtual std::uint32_t read(int counter) const = 0;
  bool test(int counter, std::uint32_t target) const { return reached(read(counter), target); }

  /// What a wait still needs from a rank, empty when nothing: asked when that rank is found dead
  /// or the deadline has passed, to name the culprit.
  using Awaited = std::function<std::optional<WaitDetail>(int rank)>;
  /// Returns Ok when ready() is true; else, at the latest at `deadline`, kTimeout, kPeerLost, or
  /// the failure that another rank published. Its own errors are published with fail(). ready()
  /// must depend only on counters of this part (or on state changed before wake()).
  virtual Status wait(const std::function<bool()>& ready, const Awaited& awaited,
                      platform::Clock::time_point deadline) = 0;
  /// wait() for one counter that `source` grows.
  Status wait_until(int counter, std::uint32_t target, WaitDetail detail,
                    platform::Clock::time_point deadline);
  /// Wakes the threads of this rank that wait, to look at ready() again.
  virtual void wake() = 0;

  /// Publishes the first failure of this window to all ranks and wakes them; returns the failure
  /// that stands (an earlier one wins).
  virtual Status fail(const Status& failure) = 0;
  /// Ok, or the published failure. Cheap: one acquire load when there is none.
  virtual Status failure() const = 0;

  /// Two shared clocks per rank for the sim transport: the time at which that rank's egress (0) or
  /// ingress (1) is free, in nanoseconds of platform::Clock.
  virtual std::atomic<std::int64_t>& link_clock(int rank, int direction) = 0;
};

}  // namespace tandem::symm
