// SPDX-License-Identifier: Apache-2.0
//
// The size of messages, and cutting a rectangle: by rows while a row fits, else every row on its
// own.
#include "mpi/pieces.h"

#include <algorithm>

namespace tandem::mpi {
namespace {

/// What MPI sends without asking the receiver first (Open MPI over TCP: below 64 KiB). A question
/// and its answer wait, on either side, for a look at the network and behind what lies in the
/// connection: with them the link ran dry unless both looked every 0.1 ms.
constexpr double kUnasked = 60 << 10;
/// On a faster link, where longer ones save CPU time.
constexpr double kPieceSeconds = 0.2e-3;
/// More than passes between two looks, and little enough: credits of stages share the connection
/// with cargo and wait behind it.
constexpr double kUnderWaySeconds = 4e-3;
constexpr double kLeastUnderWay = 512 << 10, kMostUnderWay = 64 << 20;

}  // namespace

MessageSizes message_sizes(const Link& link, std::uint64_t most) {
  const double piece = std::max(kUnasked, link.bytes_per_second * kPieceSeconds);
  const double under_way =
      std::clamp(link.bytes_per_second * kUnderWaySeconds, kLeastUnderWay, kMostUnderWay);
  const auto limit = static_cast<double>(most);
  return {static_cast<std::uint64_t>(std::min(piece, limit)),
          static_cast<std::uint64_t>(under_way)};
}

std::vector<Piece> cut(const symm::Cargo& cargo, std::uint64_t most) {
  std::vector<Piece> pieces;
  if (cargo.row_bytes > 0) {
    const std::uint64_t fit = std::max<std::uint64_t>(1, most / cargo.row_bytes);
    const auto group = static_cast<std::int64_t>(std::min<std::uint64_t>(fit, 1 << 30));
    const std::uint64_t width = std::min(cargo.row_bytes, most);
    for (std::int64_t row = 0; row < cargo.rows; row += group) {
      for (std::uint64_t at = 0; at < cargo.row_bytes; at += width) {
        pieces.push_back({.row0 = row,
                          .rows = std::min(group, cargo.rows - row),
                          .at = at,
                          .bytes = std::min(width, cargo.row_bytes - at)});
      }
    }
  }
  for (std::uint64_t at = 0; at < cargo.extra_bytes; at += most) {
    pieces.push_back({.at = at, .bytes = std::min(most, cargo.extra_bytes - at)});
  }
  return pieces;
}

}  // namespace tandem::mpi
