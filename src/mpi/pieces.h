// SPDX-License-Identifier: Apache-2.0
//
// Pieces: how a cargo becomes messages. MPI counts elements in an int, so that a rectangle beyond a
// limit goes in several, and nothing shows of a message before all of it is there. Sender and
// receiver cut the same way, and need not talk about it. No list of them is kept: a cargo that
// someone announces costs no memory, however large it claims to be.
#pragma once

#include <cstdint>

#include "symm/note.h"
#include "tandem/transport.h"

namespace tandem::mpi {

/// Bytes [at, at + bytes) of rows [row0, row0 + rows); or, with rows = 0, of the extra piece.
struct Piece {
  std::int64_t row0 = 0, rows = 0;
  std::uint64_t at = 0, bytes = 0;  ///< in each row

  [[nodiscard]] std::uint64_t total() const {
    return bytes * static_cast<std::uint64_t>(rows == 0 ? 1 : rows);
  }
};

/// Bytes of one message, and of all that are under way to one machine, at most.
struct MessageSizes {
  std::uint64_t piece = 0, under_way = 0;
};
/// For a link: messages that it carries in 0.2 ms, and what it carries in 4 ms under way; at least
/// 60 and 512 KiB. No message has more than `most` bytes.
[[nodiscard]] MessageSizes message_sizes(const Link& link, std::uint64_t most);

/// Every byte of a cargo exactly once; no piece has more than `most` bytes (at least 1).
class Pieces {
 public:
  Pieces() = default;
  /// Precondition: the cargo's sizes are no larger than an address space (Inbox::accept()).
  Pieces(const symm::Cargo& cargo, std::uint64_t most);

  [[nodiscard]] std::uint64_t count() const { return groups_ * across_ + extras_; }
  /// The pieces of the rectangle, row by row, then those of the extra bytes. index < count().
  [[nodiscard]] Piece operator[](std::uint64_t index) const;

 private:
  std::int64_t rows_ = 0, group_ = 1;        // of the rectangle, of a piece
  std::uint64_t row_bytes_ = 0, width_ = 1;  // of the rectangle, of a piece
  std::uint64_t extra_bytes_ = 0, most_ = 1;
  std::uint64_t groups_ = 0, across_ = 0, extras_ = 0;  // pieces: downwards, along a row, extra
};

}  // namespace tandem::mpi
