// SPDX-License-Identifier: Apache-2.0
//
// Cutting cargo: every byte once, no piece beyond the limit, also where a rectangle or a row has
// more bytes than an int can count.
#include "mpi/pieces.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace tandem::mpi {
namespace {

TEST(Pieces, CoverEveryByteOnce) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    const symm::Cargo cargo{.row_bytes = random() % 20,
                            .rows = static_cast<std::int64_t>(random() % 12),
                            .extra_bytes = random() % 30};
    const std::uint64_t most = 1 + random() % 40;
    std::set<std::pair<std::int64_t, std::uint64_t>> seen;  // row (-1: extra), byte
    for (const Piece& piece : cut(cargo, most)) {
      ASSERT_GT(piece.total(), 0u);
      ASSERT_LE(piece.total(), most);
      for (std::int64_t r = 0; r < std::max<std::int64_t>(1, piece.rows); ++r) {
        for (std::uint64_t b = piece.at; b < piece.at + piece.bytes; ++b) {
          ASSERT_TRUE(seen.insert({piece.rows == 0 ? -1 : piece.row0 + r, b}).second);
        }
      }
    }
    EXPECT_EQ(seen.size(),
              cargo.row_bytes * static_cast<std::uint64_t>(cargo.rows) + cargo.extra_bytes);
  }
}

TEST(Pieces, BeyondWhatAnIntCounts) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  const symm::Cargo cargo{.row_bytes = 3'000'000'001, .rows = 5, .extra_bytes = 5'000'000'000};
  std::uint64_t rectangle = 0, extra = 0;
  for (const Piece& piece : cut(cargo, kMost)) {
    EXPECT_LE(piece.total(), kMost);
    (piece.rows == 0 ? extra : rectangle) += piece.total();
  }
  EXPECT_EQ(rectangle, 15'000'000'005u);
  EXPECT_EQ(extra, cargo.extra_bytes);

  const symm::Cargo many{.row_bytes = 4096, .rows = 3'000'000};
  std::uint64_t all = 0;
  for (const Piece& piece : cut(many, kMost)) {
    EXPECT_LE(piece.total(), kMost);
    all += piece.total();
  }
  EXPECT_EQ(all, 12'288'000'000u);
}

}  // namespace
}  // namespace tandem::mpi
