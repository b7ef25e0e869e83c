// SPDX-License-Identifier: Apache-2.0
//
// Outgoing: what this process sends to one other machine. Notes are gathered into messages; cargo
// is announced by a note each and follows as messages of its own, so that the receiver knows where
// it belongs before it comes. Other threads queue, the bridge's thread sends: start reading at
// post().
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "mpi/requests.h"
#include "symm/inbox.h"
#include "symm/remote.h"

namespace tandem::mpi {

enum Tag : int { kNotes = 1, kCargo = 2 };

/// Longest message of notes: several notes of any kind, and short enough that MPI sends it at once.
inline constexpr std::size_t kMessageBytes = 4096;

class Outgoing {
 public:
  /// To the rank that receives there.
  Outgoing(int receiver, const MessageSizes& sizes) : receiver_(receiver), sizes_(sizes) {}

  /// Thread-safe.
  void tell(symm::Note note, std::span<const std::byte> text);
  void ship(const symm::Cargo& cargo, symm::CargoSource source);

  /// Sends what is queued, as far as it may. Returns whether anything was sent. The bridge's
  /// thread.
  Result<bool> post(Requests& requests, symm::Inbox& inbox);
  /// Nothing is queued or under way.
  [[nodiscard]] bool idle();

 private:
  struct Message {
    std::vector<std::byte> bytes;
    int cargo = 0;  ///< announced in it
  };
  struct Shipment {
    symm::Cargo cargo;
    symm::CargoSource source;
    std::vector<Piece> pieces;  ///< cut when its turn comes
    std::size_t posted = 0, sent = 0;
    bool is_cut = false;
  };
  /// Appends a note to the last message. The lock is held.
  void append(symm::Note note, std::span<const std::byte> text);
  void finish(Shipment& shipment, symm::Inbox& inbox);

  const int receiver_;
  const MessageSizes sizes_;
  std::mutex mutex_;  // guards the two queues
  std::deque<std::shared_ptr<Message>> messages_;
  std::deque<std::shared_ptr<Shipment>> queued_;
  // The bridge's thread only:
  std::deque<std::shared_ptr<Shipment>> shipments_;  ///< not yet posted entirely
  int announced_ = 0;                                ///< of those, from the front
  int messages_under_way_ = 0;
  std::uint64_t bytes_under_way_ = 0;
};

}  // namespace tandem::mpi
