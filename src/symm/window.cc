// SPDX-License-Identifier: Apache-2.0
//
// Window over a range of the world's memory file. Part r of the range is rank r's: control,
// counters, payload. What concerns all ranks (who has left, the failure) lies in part 0.
#include "symm/window.h"

#include <cstring>
#include <new>

#include "platform/delay.h"
#include "platform/memory.h"
#include "platform/process.h"
#include "symm/waiting.h"
#include "symm/world.h"
#include "symm/world_memory.h"

namespace tandem::symm {

struct Window::Control {
  Doorbell bell;
  struct alignas(kCacheLine) LinkClock {
    std::atomic<std::int64_t> free_at{0};
  };
  LinkClock links[2];  // egress, ingress
  // One bit per rank, in part 0. `left`: sends no more. `dropped`: touches the memory no more.
  alignas(kCacheLine) std::atomic<std::uint64_t> left{0};
  std::atomic<std::uint64_t> dropped{0};
  FailureRecord failure;
};

struct alignas(kCacheLine) Window::Counter {
  std::atomic<std::uint32_t> value{0};
};

namespace {

std::size_t whole_pages(std::size_t bytes) {
  const std::size_t page = platform::page_size();
  return (bytes + page - 1) / page * page;
}

std::uint64_t bit(int rank) { return std::uint64_t{1} << rank; }

}  // namespace

std::size_t Window::payload_offset(const WindowSpec& spec) {
  return whole_pages(sizeof(Control) + static_cast<std::size_t>(spec.counters) * sizeof(Counter));
}

std::size_t Window::part_bytes(const WindowSpec& spec) {
  return payload_offset(spec) + whole_pages(spec.bytes);
}

Window::Window(std::shared_ptr<World> world, const WindowSpec& spec)
    : world_(std::move(world)),
      spec_(spec),
      rank_(world_->rank()),
      size_(world_->size()),
      part_bytes_(part_bytes(spec)),
      payload_offset_(payload_offset(spec)),
      spin_(world_->spin(spec.threads)) {}

Status Window::open(std::size_t offset) {
  WorldMemory& memory = *world_->memory_;
  const std::size_t own = static_cast<std::size_t>(rank_) * part_bytes_;
  if (Status s = memory.file().reserve(offset + own, part_bytes_); !s.ok()) return s;
  file_offset_ = offset;
  auto mapping = memory.map(offset, part_bytes_ * static_cast<std::size_t>(size_));
  if (!mapping.ok()) return mapping.status();
  if (Status s = (*mapping)->touch(own, part_bytes_); !s.ok()) return s;
  mapping_ = *mapping;
  base_ = mapping_->data();
  new (part(rank_)) Control;
  auto* counters = part(rank_) + sizeof(Control);
  for (int i = 0; i < spec_.counters; ++i) {
    new (counters + static_cast<std::size_t>(i) * sizeof(Counter)) Counter;
  }
  return {};
}

void Window::abandon() {
  base_ = nullptr;
  if (file_offset_ == 0) return;
  const std::size_t own = static_cast<std::size_t>(rank_) * part_bytes_;
  world_->memory_->file().release(file_offset_ + own, part_bytes_);
}

Window::~Window() {
  if (platform::process_id() != world_->process_) return;
  if (base_ == nullptr) return;
  // Release: pairs with the acquire in gone(), so that this rank's last notifies are seen first.
  control(0).left.fetch_or(bit(rank_), std::memory_order_release);
  ring_all();
  // Acquire and release: the last to drop comes after all that the others did with the memory.
  std::uint64_t dropped =
      control(0).dropped.fetch_or(bit(rank_), std::memory_order_acq_rel) | bit(rank_);
  for (int r = 0; r < size_; ++r) {
    if (!world_->gone(r, /*ask_kernel=*/true).empty()) dropped |= bit(r);
  }
  const std::uint64_t all = size_ == 64 ? ~std::uint64_t{0} : bit(size_) - 1;
  if (dropped == all) {
    world_->memory_->file().release(file_offset_, part_bytes_ * static_cast<std::size_t>(size_));
  }
}

Window::Control& Window::control(int rank) const {
  return *std::launder(reinterpret_cast<Control*>(part(rank)));
}

std::atomic<std::uint32_t>& Window::counter(int rank, int index) const {
  std::byte* counters = part(rank) + sizeof(Control);
  return std::launder(reinterpret_cast<Counter*>(counters))[index].value;
}

void Window::put(int peer, std::size_t offset, const std::byte* from, std::size_t bytes) {
  if (bytes == 0) return;
  std::memcpy(data(peer) + offset, from, bytes);
}

void Window::notify(int peer, int index, std::uint32_t amount) {
  platform::protocol_step("notify");
  // Release: pairs with the load in read(). seq_cst: step S1 of doorbell.h.
  counter(peer, index).fetch_add(amount, std::memory_order_seq_cst);
  control(peer).bell.ring_if_asleep();
}

std::uint32_t Window::read(int index) const {
  // Acquire: pairs with notify(). seq_cst: step W3 of doorbell.h; no dearer on x86-64 or aarch64.
  return counter(rank_, index).load(std::memory_order_seq_cst);
}

std::string_view Window::gone(int rank, bool ask_kernel) const {
  if (rank == rank_) return {};
  // Acquire: pairs with the release in ~Window().
  if ((control(0).left.load(std::memory_order_acquire) & bit(rank)) != 0) {
    return "it destroyed its end of the window";
  }
  return world_->gone(rank, ask_kernel);
}

Status Window::wait(const std::function<bool()>& ready, const Awaited& awaited,
                    platform::Clock::time_point deadline) {
  const std::function<std::string_view(int, bool)> why_gone = [this](int r, bool ask_kernel) {
    return gone(r, ask_kernel);
  };
  const Status status = symm::wait({.ready = ready,
                                    .awaited = awaited,
                                    .gone = why_gone,
                                    .bell = control(rank_).bell,
                                    .record = control(0).failure,
                                    .rank = rank_,
                                    .size = size_,
                                    .spin = spin_,
                                    .deadline = deadline});
  return status.ok() ? status : fail(status);
}

Status Window::wait_until(int index, std::uint32_t target, WaitDetail detail,
                          platform::Clock::time_point deadline) {
  const auto ready = [&] { return test(index, target); };
  const auto awaited = [&](int r) -> std::optional<WaitDetail> {
    if (r == rank_ || (detail.rank >= 0 && r != detail.rank) || ready()) return std::nullopt;
    WaitDetail now = detail;
    now.expected = target;
    now.seen = read(index);
    return now;
  };
  return wait(ready, awaited, deadline);
}

void Window::wake() { control(rank_).bell.ring(); }

void Window::ring_all() {
  for (int r = 0; r < size_; ++r) control(r).bell.ring();
}

Status Window::fail(const Status& failure) {
  const Status standing = control(0).failure.publish(failure);
  ring_all();
  return standing;
}

Status Window::failure() const { return control(0).failure.read(); }

std::atomic<std::int64_t>& Window::link_clock(int rank, int direction) {
  return control(rank).links[direction].free_at;
}

}  // namespace tandem::symm
