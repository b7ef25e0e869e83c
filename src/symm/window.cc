// SPDX-License-Identifier: Apache-2.0
//
// Window: its verbs act on the machine's memory, or tell the machine of the peer to do so.
#include "symm/window.h"

#include <algorithm>
#include <cstring>

#include "base/guarded.h"
#include "platform/delay.h"
#include "platform/process.h"
#include "symm/inbox.h"
#include "symm/waiting.h"
#include "symm/world.h"
#include "symm/world_memory.h"

namespace tandem::symm {

Window::Window(std::shared_ptr<World> world, std::shared_ptr<WindowMemory> memory,
               const WindowSpec& spec)
    : world_(std::move(world)),
      memory_(std::move(memory)),
      spec_(spec),
      rank_(world_->rank()),
      size_(world_->size()),
      spin_(world_->spin(spec.threads)) {}

Window::~Window() {
  if (platform::process_id() != world_->process_ || !memory_) return;
  memory_->leave(rank_);
  (void)base::guarded([&] {
    // Ahead of the news that this rank has left, even if another one tells it too: whoever heard of
    // the leaving first would take this rank for the culprit.
    if (const Status failed = failure(); !failed.ok()) {
      world_->tell_failure(failed, memory_->id(), refused());
    }
    world_->tell_all({.kind = NoteKind::left_window, .window = memory_->id()}, {});
    return Status();
  });
  // Who left drops the memory itself, when nothing of its process touches it any longer: on behalf
  // of ranks of other machines, or what is still queued for them. The dead cannot.
  std::uint64_t dead = 0;
  for (int r : machines().local_ranks()) {
    if (memory_->has_left(r) || world_->gone(r, /*ask_kernel=*/true).empty()) continue;
    dead |= std::uint64_t{1} << r;
  }
  if (dead != 0) memory_->drop(dead);
  if (world_->inbox_) world_->inbox_->close(memory_->id());
}

const Machines& Window::machines() const { return world_->machines(); }

void Window::put(int peer, std::size_t offset, const std::byte* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (machines().local(peer)) {
    std::memcpy(data(peer) + offset, from, bytes);
    return;
  }
  for (std::size_t done = 0; done < bytes; done += kMaxText) {
    world_->tell(
        peer,
        {.kind = NoteKind::put, .window = memory_->id(), .peer = peer, .offset = offset + done},
        {from + done, std::min(kMaxText, bytes - done)});
  }
}

void Window::notify(int peer, int index, std::uint32_t amount) {
  platform::protocol_step("notify");
  if (machines().local(peer)) {
    memory_->notify(peer, index, amount);
    return;
  }
  world_->tell(peer,
               {.kind = NoteKind::notify,
                .window = memory_->id(),
                .peer = peer,
                .counter = index,
                .number = amount},
               {});
}

std::uint32_t Window::read(int index) const { return memory_->read(rank_, index); }

void Window::ship(int machine, Cargo cargo, CargoSource source) {
  cargo.window = memory_->id();
  source.memory = memory_;
  world_->remote_->ship(machine, cargo, std::move(source));
}

Loss Window::gone(int rank, bool ask_kernel) const {
  if (rank == rank_) return {};
  if (memory_->has_left(rank)) return "it destroyed its end of the window";
  return world_->gone(rank, ask_kernel);
}

Status Window::wait(const std::function<bool()>& ready, const Awaited& awaited,
                    platform::Deadline deadline, Waiter waiter) {
  const std::function<Loss(int, bool)> why_gone = [this](int r, bool ask_kernel) {
    return gone(r, ask_kernel);
  };
  const Status status =
      symm::wait({.ready = ready,
                  .awaited = awaited,
                  .gone = why_gone,
                  .bell = memory_->bell(rank_),
                  .record = memory_->failure(),
                  .remote = waiter == Waiter::computes ? world_->remote_.get() : nullptr,
                  .rank = rank_,
                  .size = size_,
                  .spin = spin_,
                  .deadline = deadline});
  if (status.ok()) return status;
  // Who leaves a world that has failed is not the culprit. Its failure was published before.
  const Status before =
      status.code() == StatusCode::kPeerLost ? world_->memory_->failure().read() : Status();
  return fail(before.ok() ? status : before);
}

Status Window::wait_until(int index, std::uint32_t target, WaitDetail detail,
                          platform::Deadline deadline) {
  const auto ready = [&] { return test(index, target); };
  const auto awaited = [&](int r) -> std::optional<WaitDetail> {
    if (r == rank_ || (detail.rank >= 0 && r != detail.rank) || ready()) return std::nullopt;
    WaitDetail now = detail;
    now.expected = target;
    now.seen = read(index);
    return now;
  };
  return wait(ready, awaited, deadline, Waiter::sends);
}

void Window::wake() { memory_->bell(rank_).ring(); }

Status Window::fail(const Status& failure, bool refused) {
  return base::guarded([&] {
    FailureRecord& record = memory_->failure();
    const bool first = record.publish(rank_, FailureText::of(failure, refused));
    memory_->ring_all();
    if (first) world_->tell_failure(failure, memory_->id(), refused);
    return first ? failure : record.read();
  });
}

Status Window::restart() {
  const Terms own{static_cast<std::int64_t>(memory_->id())};
  // All have left the call that was refused, and what they sent in it is here.
  auto all = world_->exchange(Collective::restart, own);
  if (!all.ok()) return all.status();
  if (std::any_of(all->begin(), all->end(), [&](const Terms& t) { return t[0] != own[0]; })) {
    return {
        StatusCode::kMismatch,
        "ranks call different operators after calls that were refused; every rank must make the "
        "same sequence of calls"};
  }
  memory_->restart();
  // All counters are 0, and none grows before the next call.
  return world_->exchange(Collective::restart, Terms{}).status();
}

Status Window::failure() const { return memory_->failure().read(); }

std::atomic<std::int64_t>& Window::link_clock(int rank, int direction) {
  return memory_->link_clock(rank, direction);
}

}  // namespace tandem::symm
