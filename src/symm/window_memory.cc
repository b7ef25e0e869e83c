// SPDX-License-Identifier: Apache-2.0
//
// WindowMemory over a range of the world's memory file. What concerns all ranks of a machine (who
// has left, the failure) lies in the control of its lowest rank.
#include "symm/window_memory.h"

#include <new>

#include <fmt/format.h>

#include "base/guarded.h"
#include "platform/memory.h"
#include "symm/world_memory.h"

namespace tandem::symm {

struct WindowMemory::Control {
  Doorbell bell;
  struct alignas(kCacheLine) LinkClock {
    std::atomic<std::int64_t> free_at{0};
  };
  LinkClock links[2];  // egress, ingress
  // One bit per rank, in the leader's part. `left`: sends no more. `dropped` (ranks of this machine
  // only): touches the memory no more.
  alignas(kCacheLine) std::atomic<std::uint64_t> left{0};
  std::atomic<std::uint64_t> dropped{0};
  FailureChoice failure;  // in the leader's part, as these two
  FailureSlot said;       // in every part
};

struct alignas(kCacheLine) WindowMemory::Counter {
  std::atomic<std::uint32_t> value{0};
};

namespace {

std::size_t whole_pages(std::size_t bytes) {
  const std::size_t page = platform::page_size();
  return (bytes + page - 1) / page * page;
}

std::uint64_t bit(int rank) { return std::uint64_t{1} << rank; }

}  // namespace

std::size_t WindowMemory::part_bytes(const WindowSpec& spec) {
  return whole_pages(sizeof(Control) + static_cast<std::size_t>(spec.counters) * sizeof(Counter)) +
         whole_pages(spec.bytes);
}

std::size_t WindowMemory::machine_bytes(const Machines& machines, const WindowSpec& spec) {
  const std::size_t own = machines.local_ranks().size();
  std::size_t all = 0;
  for (int m = 0; m < machines.count(); ++m) all += machines.ranks(m).size();
  return own * part_bytes(spec) + (all - own) * whole_pages(spec.mirror_bytes);
}

std::size_t WindowMemory::rank_bytes(const Machines& machines, const WindowSpec& spec, int rank) {
  std::size_t mirrors = 0;
  for (int m = 0; m < machines.count() && spec.mirror_bytes > 0; ++m) {
    if (m == machines.own()) continue;
    for (int r : machines.ranks(m)) mirrors += machines.receiver(machines.own(), r) == rank ? 1 : 0;
  }
  // A mirror is whole pages, though it begins anywhere: up to one more.
  return part_bytes(spec) + mirrors * (whole_pages(spec.mirror_bytes) + platform::page_size());
}

WindowMemory::WindowMemory(std::shared_ptr<WorldMemory> world, const Machines& machines,
                           const WindowSpec& spec, int rank, std::size_t offset)
    : world_(std::move(world)),
      machines_(machines),
      spec_(spec),
      rank_(rank),
      part_bytes_(part_bytes(spec)),
      payload_offset_(part_bytes_ - whole_pages(spec.bytes)),
      offset_(offset) {}

template <class Each>
Status WindowMemory::for_each_range(const Each& each) const {
  const auto size = world_->size();
  const std::size_t page = platform::page_size();
  for (int r = 0; r < size; ++r) {
    const std::size_t part = static_cast<std::size_t>(r) * part_bytes_;
    Status status;
    if (r == rank_) {
      status = each(part, part_bytes_);
    } else if (!machines_.local(r) && spec_.mirror_bytes > 0 &&
               machines_.receiver(machines_.own(), r) == rank_) {
      const std::size_t first = (payload_offset_ + spec_.mirror_offset) / page * page;
      const std::size_t end =
          whole_pages(payload_offset_ + spec_.mirror_offset + spec_.mirror_bytes);
      status = each(part + first, end - first);
    }
    if (!status.ok()) return status;
  }
  return {};
}

Result<std::shared_ptr<WindowMemory>> WindowMemory::open(std::shared_ptr<WorldMemory> world,
                                                         const Machines& machines,
                                                         const WindowSpec& spec, int rank,
                                                         std::size_t offset,
                                                         platform::MemoryPromise promise) {
  // Rank 0 says where, by shared memory: believed no further than that it harms nothing else.
  if (offset % platform::page_size() != 0 || offset < WorldMemory::control_bytes() ||
      offset > platform::SharedFile::kBytes) {
    return Status(
        StatusCode::kInternal,
        fmt::format("rank 0 puts a window at {} of the memory that ranks share, where none "
                    "can be: a rank wrote where it must not; restart all ranks",
                    offset));
  }
  std::shared_ptr<WindowMemory> self(
      new WindowMemory(std::move(world), machines, spec, rank, offset));
  const Status taken = base::guarded([&] { return self->take(promise); });
  if (taken.ok()) return self;
  self->abandon();
  return taken;
}

Status WindowMemory::take(platform::MemoryPromise& promise) {
  WorldMemory& memory = *world_;
  Status status = for_each_range([&](std::size_t at, std::size_t bytes) {
    return promise.keep_in_steps(bytes, [&](std::size_t done, std::size_t step) {
      return memory.file().reserve(offset_ + at + done, step);
    });
  });
  if (!status.ok()) return status;
  auto mapping = memory.map(offset_, part_bytes_ * static_cast<std::size_t>(memory.size()));
  if (!mapping.ok()) return mapping.status();
  status = for_each_range(
      [&](std::size_t at, std::size_t bytes) { return (*mapping)->touch(at, bytes); });
  if (!status.ok()) return status;
  mapping_ = *mapping;
  base_ = mapping_->data();
  new (part(rank_)) Control;
  failure_.emplace(control(machines_.leader()).failure, control(0).said, part_bytes_,
                   memory.size());
  std::byte* counters = part(rank_) + sizeof(Control);
  for (int i = 0; i < spec_.counters; ++i) {
    new (counters + static_cast<std::size_t>(i) * sizeof(Counter)) Counter;
  }
  return {};
}

void WindowMemory::abandon() {
  (void)for_each_range([&](std::size_t at, std::size_t bytes) -> Status {
    world_->file().release(offset_ + at, bytes);
    return {};
  });
}

bool WindowMemory::holds(int rank, std::uint64_t offset, std::uint64_t bytes) const {
  if (rank < 0 || rank >= world_->size()) return false;
  const bool local = machines_.local(rank);
  const std::uint64_t first = local ? 0 : spec_.mirror_offset;
  const std::uint64_t length = local ? spec_.bytes : spec_.mirror_bytes;
  return offset >= first && offset - first <= length && bytes <= length - (offset - first);
}

bool WindowMemory::overlaps(const void* data, std::size_t bytes) const {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  const auto begin = reinterpret_cast<std::uintptr_t>(base_);
  return bytes > 0 && at < begin + mapping_->size() && begin < at + bytes;
}

bool WindowMemory::has_counter(int rank, int index) const {
  return rank >= 0 && rank < world_->size() && machines_.local(rank) && index >= 0 &&
         index < spec_.counters;
}

WindowMemory::Control& WindowMemory::control(int rank) const {
  return *std::launder(reinterpret_cast<Control*>(part(rank)));
}

std::atomic<std::uint32_t>& WindowMemory::counter(int rank, int index) const {
  std::byte* counters = part(rank) + sizeof(Control);
  return std::launder(reinterpret_cast<Counter*>(counters))[index].value;
}

void WindowMemory::notify(int rank, int index, std::uint32_t amount) {
  // Release: pairs with the load in read(). seq_cst: step S1 of doorbell.h.
  counter(rank, index).fetch_add(amount, std::memory_order_seq_cst);
  control(rank).bell.ring_if_asleep();
}

std::uint32_t WindowMemory::read(int rank, int index) const {
  // Acquire: pairs with notify(). seq_cst: step W3 of doorbell.h; no dearer on x86-64 or aarch64.
  return counter(rank, index).load(std::memory_order_seq_cst);
}

Doorbell& WindowMemory::bell(int rank) const { return control(rank).bell; }

void WindowMemory::ring_all() const {
  for (int r : machines_.local_ranks()) control(r).bell.ring();
}

WindowMemory::~WindowMemory() {
  // Left: then the leader's part, where this is written, has memory.
  if (left_.load(std::memory_order_relaxed)) drop(bit(rank_));
}

void WindowMemory::leave(int rank) {
  // Relaxed: who destroys the last owner comes after this through the owners' count.
  if (rank == rank_) left_.store(true, std::memory_order_relaxed);
  // Release: pairs with the acquire in has_left(), so that the rank's last notifies are seen first.
  control(machines_.leader()).left.fetch_or(bit(rank), std::memory_order_release);
  ring_all();
}

bool WindowMemory::has_left(int rank) const {
  return (control(machines_.leader()).left.load(std::memory_order_acquire) & bit(rank)) != 0;
}

void WindowMemory::drop(std::uint64_t ranks) {
  // Acquire and release: the last to drop comes after all that the others did with the memory.
  const std::uint64_t dropped =
      control(machines_.leader()).dropped.fetch_or(ranks, std::memory_order_acq_rel) | ranks;
  for (int r : machines_.local_ranks()) {
    if ((dropped & bit(r)) == 0) return;
  }
  world_->file().release(offset_, part_bytes_ * static_cast<std::size_t>(world_->size()));
}

void WindowMemory::restart() {
  // Relaxed: the collective around it orders this with what the others do before and after.
  for (int i = 0; i < spec_.counters; ++i) {
    counter(rank_, i).store(0, std::memory_order_relaxed);
  }
  if (rank_ == machines_.leader()) failure().clear();
}

std::atomic<std::int64_t>& WindowMemory::link_clock(int rank, int direction) const {
  return control(rank).links[direction].free_at;
}

}  // namespace tandem::symm
