// SPDX-License-Identifier: Apache-2.0
//
// WindowMemory: a window's bytes on one machine, and what may be done to them there. Part r is rank
// r's: control, counters, payload. Parts of ranks of other machines are mirrors: of those only the
// payload that others read where its owner wrote it has memory. Window uses it for its own rank,
// Inbox on behalf of ranks of other machines.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "platform/memory_promise.h"
#include "platform/shared_memory.h"
#include "symm/doorbell.h"
#include "symm/failure_record.h"
#include "symm/machines.h"

namespace tandem::symm {

class WorldMemory;

struct WindowSpec {
  std::size_t bytes = 0;  ///< payload of each rank's part
  int counters = 0;       ///< counters of each rank's part, each on a cache line of its own
  int threads = 1;        ///< busy threads per rank: decides whether waiters poll (World::spin)
  /// The range of the payload that peers read in its owner's part. Only this is mirrored on other
  /// machines, so there nothing else of a peer's part may be looked at.
  std::size_t mirror_offset = 0, mirror_bytes = 0;
  /// A hash of what else its users must agree on: how they cut what travels.
  std::uint64_t plan = 0;
};

class WindowMemory {
 public:
  /// Maps the parts, which begin at `offset` of the world's file, and takes memory for `rank`'s own
  /// part and for the mirrors that it receives: rank_bytes(), as promised. Errors: kOutOfMemory.
  static Result<std::shared_ptr<WindowMemory>> open(std::shared_ptr<WorldMemory> world,
                                                    const Machines& machines,
                                                    const WindowSpec& spec, int rank,
                                                    std::size_t offset,
                                                    platform::MemoryPromise promise = {});
  ~WindowMemory();
  WindowMemory(const WindowMemory&) = delete;
  WindowMemory& operator=(const WindowMemory&) = delete;
  /// Gives that memory back, without touching the parts of others, which may have none.
  void abandon();

  /// Bytes of one rank's part.
  static std::size_t part_bytes(const WindowSpec& spec);
  /// Bytes that a machine holds: its own ranks' parts and the mirrors.
  static std::size_t machine_bytes(const Machines& machines, const WindowSpec& spec);
  /// Of these, what `rank` takes: its own part and the mirrors that it receives.
  static std::size_t rank_bytes(const Machines& machines, const WindowSpec& spec, int rank);

  [[nodiscard]] std::uint64_t id() const { return offset_; }
  [[nodiscard]] std::byte* data(int rank) const { return part(rank) + payload_offset_; }
  /// Whether [offset, offset + bytes) lies in memory of this rank's part on this machine.
  [[nodiscard]] bool holds(int rank, std::uint64_t offset, std::uint64_t bytes) const;
  /// Whether any of these bytes is in the mapping of the parts.
  [[nodiscard]] bool overlaps(const void* data, std::size_t bytes) const;
  [[nodiscard]] bool has_counter(int rank, int index) const;

  /// Adds to a counter, with release order after all earlier writes of this thread, and wakes its
  /// rank if it sleeps.
  void notify(int rank, int index, std::uint32_t amount);
  [[nodiscard]] std::uint32_t read(int rank, int index) const;
  [[nodiscard]] Doorbell& bell(int rank) const;
  void ring_all() const;

  /// The machine's record of the window's first failure.
  [[nodiscard]] FailureRecord& failure() { return *failure_; }

  /// A rank sends no more. After leave() of one's own, only what holds this object touches it.
  void leave(int rank);
  [[nodiscard]] bool has_left(int rank) const;
  /// These ranks of this machine touch the memory no more; gives it back when they are the last. A
  /// rank that has left drops its own bit with the last owner of this object, which may be what the
  /// network still reads or writes.
  void drop(std::uint64_t ranks);

  /// This rank's part as it was when it was new, its payload apart; the machine's lowest rank also
  /// clears a refusal. No rank may be in a wait of this window, nothing for it under way.
  void restart();

  /// Clocks of the sim transport; see Window::link_clock().
  [[nodiscard]] std::atomic<std::int64_t>& link_clock(int rank, int direction) const;

 private:
  struct Control;  // the head of each part; window_memory.cc
  struct Counter;

  WindowMemory(std::shared_ptr<WorldMemory> world, const Machines& machines, const WindowSpec& spec,
               int rank, std::size_t offset);
  /// Takes the memory that open() promises and maps all parts.
  Status take(platform::MemoryPromise& promise);
  [[nodiscard]] std::byte* part(int rank) const {
    return base_ + static_cast<std::size_t>(rank) * part_bytes_;
  }
  [[nodiscard]] Control& control(int rank) const;
  [[nodiscard]] std::atomic<std::uint32_t>& counter(int rank, int index) const;
  /// Calls each(offset in the file, bytes) for every range whose memory is this rank's to take.
  template <class Each>
  Status for_each_range(const Each& each) const;

  std::shared_ptr<WorldMemory> world_;
  std::shared_ptr<const platform::SharedMapping> mapping_;
  const Machines machines_;
  const WindowSpec spec_;
  const int rank_;
  const std::size_t part_bytes_, payload_offset_, offset_;
  std::byte* base_ = nullptr;
  std::atomic<bool> left_{false};         ///< leave() of one's own rank
  std::optional<FailureRecord> failure_;  // of the memory that open() maps
};

}  // namespace tandem::symm
