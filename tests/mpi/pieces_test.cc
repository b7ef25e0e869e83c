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
    const Pieces pieces(cargo, most);
    for (std::uint64_t i = 0; i < pieces.count(); ++i) {
      const Piece piece = pieces[i];
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
  const Pieces pieces(cargo, kMost);
  for (std::uint64_t i = 0; i < pieces.count(); ++i) {
    const Piece piece = pieces[i];
    EXPECT_LE(piece.total(), kMost);
    (piece.rows == 0 ? extra : rectangle) += piece.total();
  }
  EXPECT_EQ(rectangle, 15'000'000'005u);
  EXPECT_EQ(extra, cargo.extra_bytes);

  const symm::Cargo many{.row_bytes = 4096, .rows = 3'000'000};
  std::uint64_t all = 0;
  const Pieces many_pieces(many, kMost);
  for (std::uint64_t i = 0; i < many_pieces.count(); ++i) {
    EXPECT_LE(many_pieces[i].total(), kMost);
    all += many_pieces[i].total();
  }
  EXPECT_EQ(all, 12'288'000'000u);
}

TEST(Pieces, OfACargoThatClaimsToBeHugeCostNothing) {
  // As a list they would take gigabytes.
  const symm::Cargo cargo{.row_bytes = 1, .rows = std::int64_t{1} << 46, .extra_bytes = 1u << 20};
  const Pieces pieces(cargo, 1);
  EXPECT_EQ(pieces.count(), (std::uint64_t{1} << 46) + (1u << 20));
  EXPECT_EQ(pieces[std::uint64_t{1} << 45].row0, std::int64_t{1} << 45);
  EXPECT_EQ(pieces[pieces.count() - 1].at, (1u << 20) - 1);
  EXPECT_EQ(Pieces({.row_bytes = 8, .rows = -3}, 100).count(), 0u);
}

TEST(MessageSizes, FollowTheLink) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  const MessageSizes slow = message_sizes({.bytes_per_second = 1e6}, kMost);
  EXPECT_EQ(slow.piece, 60u << 10);
  EXPECT_EQ(slow.under_way, 512u << 10);
  const MessageSizes fast = message_sizes({.bytes_per_second = 12.5e9}, kMost);
  EXPECT_EQ(fast.piece, 2'500'000u);
  EXPECT_EQ(fast.under_way, 50'000'000u);
  // Whatever the link, MPI can count a message, and some of them fit what may be under way.
  for (double rate : {1.0, 1e8, 1e12, 1e300}) {
    const MessageSizes sizes = message_sizes({.bytes_per_second = rate}, kMost);
    EXPECT_GE(sizes.piece, 60u << 10);
    EXPECT_LE(sizes.piece, kMost);
    EXPECT_GE(sizes.under_way, 512u << 10);
    EXPECT_LE(sizes.under_way, 64u << 20);
  }
  EXPECT_EQ(message_sizes({}, 7).piece, 7u);
}

}  // namespace
}  // namespace tandem::mpi
