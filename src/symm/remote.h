// SPDX-License-Identifier: Apache-2.0
//
// Remote: how a rank speaks to the ranks of other machines. The core knows no more of a network
// than this; src/mpi implements it. World and Window tell notes, RemoteLane ships rectangles.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "symm/note.h"

namespace tandem::symm {

/// Where a shipped rectangle lies. The memory must stay as it is until `sent` has grown, or the
/// call has failed: then whatever lies there may still be sent, and nobody uses it.
struct CargoSource {
  const std::byte* from = nullptr;
  std::size_t from_pitch = 0;
  const std::byte* extra_from = nullptr;
  /// Keeps that memory for as long as the network may read it, however the call ends and whoever
  /// destroys its window meanwhile. Window::ship() fills it in.
  std::shared_ptr<const void> memory = {};
  /// Grows by one when the memory may be written again; then the waiters of the rank's part of the
  /// window are woken.
  std::shared_ptr<std::atomic<std::uint32_t>> sent;
};

/// Thread-safe; no member waits for the network. Notes of this rank to one machine are acted on in
/// the order in which they were told, cargo in the order in which it was shipped; cargo may fall
/// behind later notes, except behind those of leaving.
class Remote {
 public:
  virtual ~Remote() = default;
  virtual void tell(int machine, Note note, std::span<const std::byte> text) = 0;
  virtual void ship(int machine, const Cargo& cargo, CargoSource source) = 0;
  /// Whether a core is free for the thread that serves the network, as far as this window's threads
  /// are concerned.
  virtual void set_pace(bool core_to_spare) = 0;
  /// A thread that computes goes to sleep until something arrives (+1), or has woken up (-1): its
  /// core is free meanwhile, and the sooner the news the better.
  virtual void core_freed(int threads) = 0;
};

}  // namespace tandem::symm
