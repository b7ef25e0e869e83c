// SPDX-License-Identifier: Apache-2.0
//
// Incoming: what this process receives from one rank of another machine, for all ranks of its own.
// Cargo is received straight into the window's memory, several pieces ahead, and announced in the
// order in which it was shipped. The bridge's thread only. Start reading at read().
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "mpi/outgoing.h"
#include "mpi/requests.h"
#include "symm/inbox.h"

namespace tandem::mpi {

class Incoming {
 public:
  Incoming(int source, std::uint64_t piece_bytes) : source_(source), piece_bytes_(piece_bytes) {}
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  /// Begins to receive, and goes on as room comes: call it after every poll.
  Status post(Requests& requests, symm::Inbox& inbox);

 private:
  /// Cargo on its way, or (pieces empty, a note) something that must wait for the cargo before it.
  struct Item {
    symm::Note note;
    symm::Cargo cargo;
    std::vector<Piece> pieces;
    std::size_t posted = 0, received = 0;
    std::vector<std::byte> refuse;  ///< for bytes that no window here wants
    bool wanted = false;
  };
  /// Acts on the notes of a message. False when it makes no sense.
  bool read(std::span<const std::byte> message, symm::Inbox& inbox);
  Status post_pieces(Requests& requests, symm::Inbox& inbox);
  /// Announces what is complete, in order.
  void settle(symm::Inbox& inbox);

  const int source_;
  const std::uint64_t piece_bytes_;
  bool listening_ = false;  ///< for a message of notes
  bool garbled_ = false;
  int pieces_under_way_ = 0;
  std::deque<std::shared_ptr<Item>> items_;
  alignas(symm::kNoteAlign) std::array<std::byte, kMessageBytes> message_;
};

}  // namespace tandem::mpi
