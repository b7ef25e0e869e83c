// SPDX-License-Identifier: Apache-2.0
//
// Cutting a rectangle: by rows while a row fits, else every row on its own.
#include "mpi/pieces.h"

#include <algorithm>

namespace tandem::mpi {

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
