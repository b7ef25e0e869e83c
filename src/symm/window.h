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
#include <string_view>

#include "platform/deadline.h"
#include "platform/park.h"
#include "symm/remote.h"
#include "symm/waiting.h"
#include "symm/window_memory.h"
#include "tandem/status.h"

namespace tandem::symm {

class World;

/// True when a counter that only grows has reached `target`, correct across wrap-around as long as
/// the two are less than 2^31 apart.
[[nodiscard]] inline bool reached(std::uint32_t value, std::uint32_t target) {
  return static_cast<std::int32_t>(value - target) >= 0;
}

class Window {
 public:
  /// Tells peers that this rank will notify no more; gives the memory back when it is the last.
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] std::size_t bytes() const { return spec_.bytes; }
  /// Payload of a rank's part, page-aligned. Writes by one rank are seen by another after notify →
  /// wait. Of a rank of another machine this is the mirror: only the range that WindowSpec names
  /// has memory, and it holds what the owner shipped.
  [[nodiscard]] std::byte* data(int rank) const { return memory_->data(rank); }
  [[nodiscard]] const Machines& machines() const;
  /// Whether any of these bytes is in this window's address space.
  [[nodiscard]] bool overlaps(const void* data, std::size_t bytes) const {
    return memory_->overlaps(data, bytes);
  }

  /// Copies into a peer's part (or one's own). To another machine `bytes` travel as notes: meant
  /// for little; RemoteLane ships what is large.
  void put(int peer, std::size_t offset, const std::byte* from, std::size_t bytes);
  /// Adds to a counter of a peer's part, after all earlier puts of this thread (release), and
  /// wakes that peer if it sleeps.
  void notify(int peer, int counter, std::uint32_t amount = 1);
  /// A counter of this rank's own part (acquire: pairs with the release of notify).
  [[nodiscard]] std::uint32_t read(int counter) const;
  [[nodiscard]] bool test(int counter, std::uint32_t target) const {
    return reached(read(counter), target);
  }

  /// What a wait still needs from a rank, empty when nothing: asked when that rank is found dead
  /// or the deadline has passed, to name the culprit.
  using Awaited = std::function<std::optional<WaitDetail>(int rank)>;
  /// Who waits. While a thread that computes sleeps, its core is free for the thread that serves
  /// the network (Remote::core_freed()); a lane has no core of its own.
  enum class Waiter { computes, sends };
  /// Returns Ok when ready() is true; else, at the latest at `deadline`, kTimeout, kPeerLost, or
  /// the failure that another rank published. Its own errors are published with fail(). ready()
  /// must depend only on counters of this part (or on state changed before wake()).
  Status wait(const std::function<bool()>& ready, const Awaited& awaited,
              platform::Deadline deadline, Waiter waiter = Waiter::computes);
  /// wait() of a lane for one counter that `detail.rank` grows (any peer when that is -1).
  Status wait_until(int counter, std::uint32_t target, WaitDetail detail,
                    platform::Deadline deadline);
  /// Wakes the threads of this rank that wait, to look at ready() again.
  void wake();

  /// Whether a rank has destroyed its end. Its process may still receive for its machine.
  [[nodiscard]] bool has_left(int rank) const { return memory_->has_left(rank); }

  /// Publishes the first failure of this window to all ranks and wakes them; returns the failure
  /// that stands (an earlier one wins). `refused`: after it the window can be used again, once all
  /// ranks have called restart().
  Status fail(const Status& failure, bool refused = false);
  /// Whether the failure that stands is such a refusal.
  [[nodiscard]] bool refused() const { return memory_->failure().refused(); }
  /// Collective, when the window was refused and this rank's threads have left it: counters begin
  /// at 0 again, on every rank, and no failure stands. The payload stays where and as it is.
  Status restart();
  /// Ok, or the published failure. Cheap: one acquire load when there is none.
  [[nodiscard]] Status failure() const;

  /// Queues a rectangle of this rank's own part for another machine; see Remote::ship().
  /// `cargo.window` and `source.memory` are filled in.
  void ship(int machine, Cargo cargo, CargoSource source);

  /// Two shared clocks per rank for the sim transport: the time at which that rank's egress (0) or
  /// ingress (1) is free, in nanoseconds of platform::Clock.
  [[nodiscard]] std::atomic<std::int64_t>& link_clock(int rank, int direction);

 private:
  friend class World;

  Window(std::shared_ptr<World> world, std::shared_ptr<WindowMemory> memory,
         const WindowSpec& spec);
  [[nodiscard]] Loss gone(int rank, bool ask_kernel) const;

  std::shared_ptr<World> world_;
  std::shared_ptr<WindowMemory> memory_;  // null where it was never made on all ranks
  const WindowSpec spec_;
  const int rank_, size_;
  platform::Spin spin_;
};

}  // namespace tandem::symm
