// SPDX-License-Identifier: Apache-2.0
//
// Incoming: what this process receives from one rank of another machine, for all ranks of its own.
// Cargo is received straight into the window's memory, several pieces ahead, and announced in the
// order in which it was shipped. What comes is not trusted: the inbox checks it, and nothing that a
// note claims takes memory. The bridge's thread only. Start reading at read().
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
  Incoming(int source, std::uint64_t piece_bytes)
      : source_(source), piece_bytes_(piece_bytes), message_(std::make_shared<Message>()) {}
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  /// Begins to receive, and goes on as room comes: call it after every poll. Errors: kInternal
  /// (what came makes no sense), kIo.
  Status post(Requests& requests, symm::Inbox& inbox);

 private:
  struct Message {
    alignas(symm::kNoteAlign) std::array<std::byte, kMessageBytes> bytes;
  };
  /// Cargo on its way, or (no pieces, a note) something that must wait for the cargo before it.
  struct Item {
    symm::Note note;
    std::vector<std::byte> text;  ///< of such a note
    symm::Cargo cargo;
    Pieces pieces;
    std::uint64_t posted = 0, received = 0;
    /// Where it lands; kept until MPI has ended with it. Null: nobody here wants the bytes.
    std::shared_ptr<symm::WindowMemory> window;
  };
  /// Acts on the notes of a message. False when it makes no sense.
  bool read(std::span<const std::byte> message, symm::Inbox& inbox);
  Status post_pieces(Requests& requests);
  /// Posts the receive of a piece. False when it has to wait for room.
  Result<bool> post_piece(Requests& requests, const std::shared_ptr<Item>& item,
                          const Piece& piece);
  /// Announces what is complete, in order.
  void settle(symm::Inbox& inbox);

  const int source_;
  const std::uint64_t piece_bytes_;
  bool listening_ = false;  ///< for a message of notes
  bool garbled_ = false;
  int pieces_under_way_ = 0;
  std::deque<std::shared_ptr<Item>> items_;
  std::shared_ptr<Message> message_;
  /// Takes one unwanted piece at a time; as large as any, made when the first one comes.
  std::shared_ptr<std::byte[]> sink_;
  bool sink_taken_ = false;
};

}  // namespace tandem::mpi
