// SPDX-License-Identifier: Apache-2.0
//
// Acting on notes. Start reading at act().
#include "symm/inbox.h"

#include <algorithm>
#include <cstring>

#include "base/guarded.h"
#include "symm/world_memory.h"

namespace tandem::symm {
namespace {

/// More than any window has (World::create_window()).
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 46;

std::uint64_t bit(int rank) { return std::uint64_t{1} << rank; }

/// Whether `rows` rows that begin `pitch` bytes apart end within kMostBytes; where, in `end`.
bool bounded(std::int64_t rows, std::uint64_t pitch, std::uint64_t row_bytes, std::uint64_t& end) {
  end = 0;
  if (rows <= 0 || row_bytes == 0) return rows >= 0;
  return !__builtin_mul_overflow(static_cast<std::uint64_t>(rows - 1), pitch, &end) &&
         !__builtin_add_overflow(end, row_bytes, &end) && end <= kMostBytes;
}

/// A text that says of what kind the failure is. Ok would be no failure.
bool is_failure(const FailureText& text) {
  return text.code > static_cast<std::uint32_t>(StatusCode::kOk) &&
         text.code <= static_cast<std::uint32_t>(StatusCode::kInternal);
}

}  // namespace

Inbox::Inbox(std::shared_ptr<WorldMemory> world, const Machines& machines, int rank)
    : world_(std::move(world)), machines_(machines), rank_(rank) {
  for (int r = 0; r < world_->size(); ++r) {
    const bool receives = machines.receiver(machines.own(), r) == rank;
    if (!machines.local(r) && receives) sources_ |= bit(r);
  }
}

std::shared_ptr<WindowMemory> Inbox::find(std::uint64_t window) {
  const std::lock_guard lock(mutex_);
  const auto entry = windows_.find(window);
  return entry == windows_.end() ? nullptr : entry->second.memory;
}

bool Inbox::act(int source, const Note& note, std::span<const std::byte> text) {
  RankEntry& entry = world_->entry(source);
  switch (note.kind) {
    case NoteKind::exchange:
      // One after the other: whoever skipped one would have its offer read while it is written.
      if (text.size() != sizeof(Offer) ||
          note.number != entry.exchanged.load(std::memory_order_relaxed) + 1) {
        return false;
      }
      std::memcpy(&entry.offers[note.number % kExchangeSlots], text.data(), text.size());
      // Release: pairs with the load in World::exchange_locked(). seq_cst: S1 of doorbell.h.
      entry.exchanged.store(note.number, std::memory_order_seq_cst);
      for (int r : machines_.local_ranks()) world_->entry(r).bell.ring_if_asleep();
      return true;
    case NoteKind::left_world:
      // Release: pairs with the acquire in World::gone().
      entry.state.store(RankState::left, std::memory_order_release);
      world_->ring_all();
      return true;
    case NoteKind::left_window:
      source_left(source, note.window);
      return true;
    case NoteKind::lost:
    case NoteKind::failure: {
      FailureText failure;
      if (text.size() != sizeof failure) return false;
      std::memcpy(&failure, text.data(), text.size());
      if (!is_failure(failure)) return false;
      if (note.kind == NoteKind::lost) {
        fail(failure.status());
        mark_ended(source);  // behind the failure, which stands
      } else if (note.window == 0) {
        (void)world_->failure().publish(rank_, failure);
        world_->ring_all();
      } else if (const auto window = find(note.window)) {
        (void)window->failure().publish(rank_, failure);
        window->ring_all();
      }
      return true;
    }
    case NoteKind::ended:
      if (note.peer < 0 || note.peer >= world_->size() ||
          machines_.of(note.peer) != machines_.of(source)) {
        return false;
      }
      mark_ended(note.peer);
      return true;
    case NoteKind::put:
    case NoteKind::notify:
      break;
    default:
      return false;
  }
  const auto window = find(note.window);
  if (!window) return true;  // closed here: nobody waits for it
  if (note.kind == NoteKind::notify) {
    if (!window->has_counter(note.peer, note.counter)) return false;
    window->notify(note.peer, note.counter, note.number);
    return true;
  }
  if (!window->holds(note.peer, note.offset, text.size()) || !machines_.local(note.peer)) {
    return false;
  }
  std::memcpy(window->data(note.peer) + note.offset, text.data(), text.size());
  return true;
}

bool Inbox::accept(int source, const Cargo& cargo, std::shared_ptr<WindowMemory>& window) {
  std::uint64_t end = 0;
  // Its bytes as they come, and as they lie: both are sizes.
  if (!bounded(cargo.rows, cargo.row_bytes, cargo.row_bytes, end) ||
      cargo.extra_bytes > kMostBytes) {
    return false;
  }
  window = find(cargo.window);
  return !window || fits(source, cargo, *window);
}

bool Inbox::fits(int source, const Cargo& cargo, const WindowMemory& window) const {
  // Into one's own mirror, or into the part of a rank of this machine.
  if (cargo.part != source && !(window.holds(cargo.part, 0, 0) && machines_.local(cargo.part))) {
    return false;
  }
  for (std::uint64_t left = cargo.peers; left != 0; left &= left - 1) {
    if (!window.has_counter(__builtin_ctzll(left), cargo.counter)) return false;
  }
  if (cargo.extra_bytes > 0 && !window.holds(cargo.part, cargo.extra_to, cargo.extra_bytes)) {
    return false;
  }
  std::uint64_t end = 0;
  return bounded(cargo.rows, cargo.to_pitch, cargo.row_bytes, end) &&
         (end == 0 || window.holds(cargo.part, cargo.to, end));
}

void Inbox::arrived(const Cargo& cargo, WindowMemory& window) {
  for (std::uint64_t left = cargo.peers; left != 0; left &= left - 1) {
    window.notify(__builtin_ctzll(left), cargo.counter, 1);
  }
}

void Inbox::sent(std::uint64_t window) {
  if (const auto memory = find(window)) memory->bell(rank_).ring();
}

void Inbox::open(std::shared_ptr<WindowMemory> window) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t id = window->id();
  windows_[id] = {std::move(window), sources_, false};
}

void Inbox::close(std::uint64_t window) {
  const std::lock_guard lock(mutex_);
  const auto entry = windows_.find(window);
  if (entry == windows_.end()) return;
  entry->second.closed = true;
  if (entry->second.sources == 0) windows_.erase(entry);
}

void Inbox::forget(std::uint64_t window) {
  const std::lock_guard lock(mutex_);
  windows_.erase(window);
}

void Inbox::source_left(int source, std::uint64_t window) {
  const std::lock_guard lock(mutex_);
  const auto entry = windows_.find(window);
  if (entry == windows_.end()) return;
  entry->second.memory->leave(source);
  entry->second.sources &= ~bit(source);
  if (entry->second.closed && entry->second.sources == 0) windows_.erase(entry);
}

void Inbox::fail(const Status& failure) noexcept {
  const FailureText text = FailureText::of(failure);
  const auto publish = [&](FailureRecord& record) { (void)record.publish(rank_, text); };
  publish(world_->failure());
  world_->ring_all();
  const std::lock_guard lock(mutex_);
  for (auto& [id, window] : windows_) {
    publish(window.memory->failure());
    window.memory->ring_all();
  }
}

void Inbox::leave(const Tell& tell) {
  const auto tell_failure = [&](const FailureRecord& record, std::uint64_t window) {
    if (!record.published()) return;
    const auto text = FailureText::of(record.read(), record.refused());
    tell({.kind = NoteKind::failure, .window = window}, bytes_of(text));
  };
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, window] : windows_) {
      if (window.closed) continue;
      // In the order of ~Window(), and for its reasons.
      window.memory->leave(rank_);
      tell_failure(window.memory->failure(), id);
      tell({.kind = NoteKind::left_window, .window = id}, {});
    }
  }
  if (has_left(rank_)) return;
  tell_failure(world_->failure(), 0);
  tell({.kind = NoteKind::left_world}, {});
  // Release: pairs with the acquire in World::gone(), as in ~World().
  world_->entry(rank_).state.store(RankState::left, std::memory_order_release);
  world_->ring_all();
}

void Inbox::mark_ended(int rank) {
  RankState joined = RankState::joined;
  // Release: pairs with the acquire in World::gone(). One that has left stays so.
  world_->entry(rank).state.compare_exchange_strong(
      joined, RankState::ended, std::memory_order_release, std::memory_order_relaxed);
  world_->ring_all();
}

void Inbox::report_dead(const Tell& tell) {
  for (int r : machines_.local_ranks()) {
    // Acquire: as in has_left(). Who has marked it may have died before it told anybody.
    const RankState state = world_->entry(r).state.load(std::memory_order_acquire);
    const bool begun = state == RankState::joined || state == RankState::ended;
    if (r == rank_ || !begun || (reported_ & bit(r)) != 0 || world_->file().locked(r)) continue;
    reported_ |= bit(r);
    mark_ended(r);
    tell({.kind = NoteKind::ended, .peer = r}, {});
  }
}

bool Inbox::alone() const {
  const auto peers = machines_.local_ranks();
  return std::all_of(peers.begin(), peers.end(),
                     [&](int r) { return r == rank_ || has_left(r) || !world_->file().locked(r); });
}

bool Inbox::failed() const { return world_->failure().published(); }

bool Inbox::sources_left() const {
  for (std::uint64_t left = sources_; left != 0; left &= left - 1) {
    if (!has_left(__builtin_ctzll(left))) return false;
  }
  return true;
}

bool Inbox::ended(int rank) const {
  // Acquire: pairs with the release in act().
  return world_->entry(rank).state.load(std::memory_order_acquire) == RankState::ended;
}

bool Inbox::has_left(int rank) const {
  // Acquire: pairs with the release of whoever leaves.
  return world_->entry(rank).state.load(std::memory_order_acquire) != RankState::joined;
}

}  // namespace tandem::symm
