// SPDX-License-Identifier: Apache-2.0
//
// Properties of row-block plans: every gathered row once, own rows first, small shards together.
#include "stream/row_blocks.h"

#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tandem::stream {
namespace {

std::vector<ChunkPlan> plans(const std::vector<std::int64_t>& shards,
                             std::int64_t stage_rows = TilePolicy::kNoStages) {
  std::vector<ChunkPlan> result;
  for (std::int64_t rows : shards) {
    result.emplace_back(TilePolicy{.k = 64, .stage_rows = stage_rows}, rows);
  }
  return result;
}

TEST(RowBlocks, NoBlockGoesPastTheEndOfAStage) {
  const std::vector<std::int64_t> shards{500, 30, 700};
  const auto cut = plans(shards, 128);
  const std::vector<std::int64_t> first{0, 500, 530};
  for (const RowBlock& block : plan_row_blocks(cut, {.own = 1, .most_rows = 96, .quantum = 6})) {
    for (std::size_t r = 0; r < shards.size(); ++r) {
      const std::int64_t from = block.row0 - first[r];
      if (from < 0 || from >= shards[r]) continue;
      EXPECT_EQ(from / cut[r].stage_rows(), (from + block.rows - 1) / cut[r].stage_rows());
    }
  }
}

TEST(RowBlocks, CoverEveryRowOnceWithinTheLimit) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::int64_t> shards(1 + random() % 9);
    for (auto& rows : shards)
      rows = static_cast<std::int64_t>(random() % (random() % 3 == 0 ? 1 : 700));
    const RowBlockPolicy policy{.own = static_cast<int>(random() % shards.size()),
                                .most_rows = static_cast<std::int64_t>(1 + random() % 200),
                                .quantum = static_cast<std::int64_t>(1 + random() % 14),
                                .merge_own = random() % 2 == 0,
                                .shared_rows = static_cast<std::int64_t>(random() % 300)};
    const std::int64_t m = std::accumulate(shards.begin(), shards.end(), std::int64_t{0});
    std::vector<int> seen(static_cast<std::size_t>(m), 0);
    const auto cut = plans(shards, random() % 2 == 0 ? 90 : TilePolicy::kNoStages);
    for (const RowBlock& block : plan_row_blocks(cut, policy)) {
      ASSERT_GT(block.rows, 0);
      ASSERT_LE(block.rows, policy.most_rows);
      ASSERT_GE(block.row0, 0);
      ASSERT_LE(block.row0 + block.rows, m);
      for (std::int64_t i = 0; i < block.rows; ++i)
        ++seen[static_cast<std::size_t>(block.row0 + i)];
    }
    for (int count : seen) ASSERT_EQ(count, 1);
  }
}

TEST(RowBlocks, OwnRowsComeFirstThenTheNextRanks) {
  const std::vector<std::int64_t> shards{200, 200, 200};
  const auto blocks = plan_row_blocks(plans(shards), {.own = 1, .most_rows = 100, .quantum = 4});
  ASSERT_EQ(blocks.size(), 6u);
  EXPECT_EQ(blocks[0].row0, 200);
  EXPECT_EQ(blocks[1].row0, 300);
  EXPECT_EQ(blocks[2].row0, 400);
  EXPECT_EQ(blocks[4].row0, 0);
}

TEST(RowBlocks, SmallShardsShareABlockSoThatBIsReadOnce) {
  const std::vector<std::int64_t> shards{8, 8, 8, 8};
  EXPECT_EQ(plan_row_blocks(plans(shards), {.own = 2, .most_rows = 96}).size(), 1u);
  const auto apart =
      plan_row_blocks(plans(shards), {.own = 1, .most_rows = 96, .merge_own = false});
  ASSERT_EQ(apart.size(), 3u);
  EXPECT_EQ(apart[0].row0, 8);
  EXPECT_EQ(apart[1].row0, 16);
  EXPECT_EQ(apart[1].rows, 16);
}

TEST(RowBlocks, OverASlowLinkSharedBlocksAreSmall) {
  constexpr std::int64_t kMost = 96, kQuantum = 16;
  // A link that is faster than the multiply: sharing costs nothing.
  EXPECT_EQ(rows_to_share({.work = 2, .pass = 0, .link = 2}, kMost, kQuantum), kMost);
  // A slower one: up to a register block, or to the rows that one pass over B pays for.
  EXPECT_EQ(rows_to_share({.work = 1, .pass = 0, .link = 2}, kMost, kQuantum), kQuantum);
  EXPECT_EQ(rows_to_share({.work = 1, .pass = 40, .link = 2}, kMost, kQuantum), 40);
  EXPECT_EQ(rows_to_share({.work = 1e-300, .pass = 1e9, .link = 2}, kMost, kQuantum), kMost);
  EXPECT_EQ(rows_to_share({.work = 1, .pass = 0, .link = 2}, 8, kQuantum), 8);

  const std::vector<std::int64_t> shards{8, 8, 8, 8, 8};
  const auto blocks = plan_row_blocks(
      plans(shards), {.own = 0, .most_rows = 96, .merge_own = false, .shared_rows = 16});
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[1].row0, 8);
  EXPECT_EQ(blocks[1].rows, 16);
  EXPECT_EQ(blocks[2].rows, 16);
}

TEST(RowBlocks, BlocksAreEvenAndWholeRegisterBlocks) {
  const std::vector<std::int64_t> shards{100};
  const auto blocks = plan_row_blocks(plans(shards), {.most_rows = 96, .quantum = 6});
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].rows, 54);
  EXPECT_EQ(blocks[1].rows, 46);
}

}  // namespace
}  // namespace tandem::stream
