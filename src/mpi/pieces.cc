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

/// Rounded up, without the sum that could overflow.
std::uint64_t pieces_of(std::uint64_t whole, std::uint64_t most) {
  return whole / most + (whole % most == 0 ? 0 : 1);
}

}  // namespace

MessageSizes message_sizes(const Link& link, std::uint64_t most) {
  const double piece = std::max(kUnasked, link.bytes_per_second * kPieceSeconds);
  const double under_way =
      std::clamp(link.bytes_per_second * kUnderWaySeconds, kLeastUnderWay, kMostUnderWay);
  const auto limit = static_cast<double>(most);
  return {static_cast<std::uint64_t>(std::min(piece, limit)),
          static_cast<std::uint64_t>(under_way)};
}

Pieces::Pieces(const symm::Cargo& cargo, std::uint64_t most)
    : extra_bytes_(cargo.extra_bytes), most_(most), extras_(pieces_of(cargo.extra_bytes, most)) {
  if (cargo.rows <= 0 || cargo.row_bytes == 0) return;
  rows_ = cargo.rows;
  row_bytes_ = cargo.row_bytes;
  // MPI counts rows in an int too.
  group_ = static_cast<std::int64_t>(
      std::clamp<std::uint64_t>(most / row_bytes_, 1, std::uint64_t{1} << 30));
  width_ = std::min(row_bytes_, most);
  groups_ = pieces_of(static_cast<std::uint64_t>(rows_), static_cast<std::uint64_t>(group_));
  across_ = pieces_of(row_bytes_, width_);
}

Piece Pieces::operator[](std::uint64_t index) const {
  if (index >= groups_ * across_) {
    const std::uint64_t at = (index - groups_ * across_) * most_;
    return {.at = at, .bytes = std::min(most_, extra_bytes_ - at)};
  }
  const std::int64_t row = static_cast<std::int64_t>(index / across_) * group_;
  const std::uint64_t at = index % across_ * width_;
  return {.row0 = row,
          .rows = std::min(group_, rows_ - row),
          .at = at,
          .bytes = std::min(width_, row_bytes_ - at)};
}

}  // namespace tandem::mpi
