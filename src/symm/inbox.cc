// SPDX-License-Identifier: Apache-2.0
//
// Acting on notes. Start reading at act().
#include "symm/inbox.h"

#include <algorithm>
#include <cstring>

#include "symm/world_memory.h"

namespace tandem::symm {
namespace {

std::uint64_t bit(int rank) { return std::uint64_t{1} << rank; }

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
      if (text.size() != sizeof(Offer)) return false;
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
    case NoteKind::failure: {
      FailureText failure;
      if (text.size() != sizeof failure) return false;
      std::memcpy(&failure, text.data(), text.size());
      if (note.window == 0) {
        (void)world_->failure().publish(rank_, failure);
        world_->ring_all();
      } else if (const auto window = find(note.window)) {
        (void)window->failure().publish(rank_, failure);
        window->ring_all();
      }
      return true;
    }
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

bool Inbox::fits(const Cargo& cargo) {
  const auto window = find(cargo.window);
  if (!window || cargo.rows < 0) return false;
  for (int r = 0; r < world_->size(); ++r) {
    if ((cargo.peers & bit(r)) != 0 && !window->has_counter(r, cargo.counter)) return false;
  }
  if (cargo.extra_bytes > 0 && !window->holds(cargo.part, cargo.extra_to, cargo.extra_bytes)) {
    return false;
  }
  if (cargo.rows == 0 || cargo.row_bytes == 0) return true;
  std::uint64_t end = 0;
  return !__builtin_mul_overflow(static_cast<std::uint64_t>(cargo.rows - 1), cargo.to_pitch,
                                 &end) &&
         !__builtin_add_overflow(end, cargo.row_bytes, &end) &&
         window->holds(cargo.part, cargo.to, end);
}

std::byte* Inbox::place(const Cargo& cargo, std::uint64_t offset) {
  const auto window = find(cargo.window);
  return window ? window->data(cargo.part) + offset : nullptr;
}

void Inbox::arrived(const Cargo& cargo) {
  const auto window = find(cargo.window);
  if (!window) return;
  for (std::uint64_t left = cargo.peers; left != 0; left &= left - 1) {
    window->notify(__builtin_ctzll(left), cargo.counter, 1);
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
  entry->second.memory->drop(bit(source));
  entry->second.sources &= ~bit(source);
  if (entry->second.closed && entry->second.sources == 0) windows_.erase(entry);
}

void Inbox::fail(const Status& failure) {
  const FailureText text = FailureText::of(failure);
  (void)world_->failure().publish(rank_, text);
  world_->ring_all();
  const std::lock_guard lock(mutex_);
  for (auto& [id, window] : windows_) {
    (void)window.memory->failure().publish(rank_, text);
    window.memory->ring_all();
  }
}

bool Inbox::alone() const {
  const auto peers = machines_.local_ranks();
  return std::all_of(peers.begin(), peers.end(),
                     [&](int r) { return r == rank_ || has_left(r) || !world_->file().locked(r); });
}

bool Inbox::sources_left() const {
  for (std::uint64_t left = sources_; left != 0; left &= left - 1) {
    if (!has_left(__builtin_ctzll(left))) return false;
  }
  return true;
}

bool Inbox::has_left(int rank) const {
  // Acquire: pairs with the release of whoever leaves.
  return world_->entry(rank).state.load(std::memory_order_acquire) != RankState::joined;
}

}  // namespace tandem::symm
