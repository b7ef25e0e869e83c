// SPDX-License-Identifier: Apache-2.0
//
// Properties of chunk plans over thousands of random shapes: every element is covered once, in
// order, within bounds; needed() counts exactly the chunks that cover a corner.
#include "stream/chunk_plan.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "tile/contract.h"

namespace tandem::stream {
namespace {

TilePolicy random_policy(std::mt19937_64& random) {
  const auto pick = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(1, most)(random);
  };
  TilePolicy policy;
  policy.k = pick(random() % 2 == 0 ? 40 : 20000);
  policy.element_bytes = random() % 2 == 0 ? 2 : 4;
  policy.tile_m = random() % 2 == 0 ? 0 : pick(300);
  policy.tile_k = random() % 2 == 0 ? 0 : pick(2000);
  policy.block_rows = pick(256);
  if (random() % 2 == 0) policy.stage_rows = pick(400);
  return policy;
}

TEST(ChunkPlan, CoversEveryElementOnceInOrder) {
  std::mt19937_64 random(20260);
  for (int round = 0; round < 5000; ++round) {
    const TilePolicy policy = random_policy(random);
    const std::int64_t rows = static_cast<std::int64_t>(random() % (round % 2 == 0 ? 40 : 5000));
    const ChunkPlan plan(policy, rows);
    SCOPED_TRACE(testing::Message() << rows << " rows, K " << policy.k << ", tile " << policy.tile_m
                                    << " x " << policy.tile_k << ", block " << policy.block_rows);
    // Walking the chunks in order must walk the shard in row-major order of chunk rectangles.
    std::int64_t row = 0, k = 0;
    for (std::int64_t c = 0; c < plan.chunks(); ++c) {
      const Chunk chunk = plan.chunk(c);
      ASSERT_EQ(chunk.row0, row);
      ASSERT_EQ(chunk.k0, k);
      ASSERT_GT(chunk.rows, 0);
      ASSERT_GT(chunk.cols, 0);
      ASSERT_LE(chunk.row0 + chunk.rows, rows);
      ASSERT_LE(chunk.k0 + chunk.cols, policy.k);
      ASSERT_EQ(plan.needed(chunk.row0 + chunk.rows, chunk.k0 + chunk.cols), c + 1);
      ASSERT_EQ(plan.needed(chunk.row0 + 1, chunk.k0 + 1), c + 1);
      k = chunk.k0 + chunk.cols;
      if (k == policy.k) {
        k = 0;
        row += chunk.rows;
      }
    }
    ASSERT_EQ(row, rows);
    ASSERT_EQ(k, 0);
    ASSERT_LE(plan.stage_rows(), policy.stage_rows);
    if (rows <= policy.stage_rows) {
      ASSERT_LE(plan.stages(), 1);
    }
    ASSERT_EQ(plan.first_chunk(plan.stages()), plan.chunks());
    for (std::int64_t s = 0; s < plan.stages(); ++s) {
      for (std::int64_t c = plan.first_chunk(s); c < plan.first_chunk(s + 1); ++c) {
        ASSERT_GE(plan.chunk(c).row0, s * plan.stage_rows());
        ASSERT_LE(plan.chunk(c).row0 + plan.chunk(c).rows, (s + 1) * plan.stage_rows());
      }
    }
    if (rows > 0) {
      ASSERT_EQ(plan.needed(rows, policy.k), plan.chunks());
    }
  }
}

TEST(ChunkPlan, LanesShareAllChunks) {
  for (int lanes = 1; lanes <= 5; ++lanes) {
    for (std::int64_t count = 0; count < 40; ++count) {
      std::int64_t sum = 0;
      for (int lane = 0; lane < lanes; ++lane) {
        std::int64_t mine = 0;
        for (std::int64_t c = 0; c < count; ++c) mine += c % lanes == lane ? 1 : 0;
        EXPECT_EQ(on_lane(count, lane, lanes), mine);
        sum += mine;
      }
      EXPECT_EQ(sum, count);
    }
  }
}

TEST(ChunkPlan, LargeShardsHave64To128Chunks) {
  for (std::int64_t rows : {1024, 2048, 3000, 4096, 10000, 131072}) {
    const ChunkPlan plan({.k = 2048, .block_rows = 96}, rows);
    EXPECT_GE(plan.chunks(), 64) << rows;
    EXPECT_LE(plan.chunks(), 128) << rows;
  }
}

TEST(ChunkPlan, UserTilesOfALargeShardAreGroupedInto64To128Chunks) {
  const ChunkPlan plan({.k = 4096, .tile_m = 128, .tile_k = 256, .block_rows = 96}, 8192);
  EXPECT_EQ(plan.tile_m(), 128);
  EXPECT_EQ(plan.tile_k(), 256);
  EXPECT_GE(plan.chunks(), 64);
  EXPECT_LE(plan.chunks(), 128);
}

TEST(ChunkPlan, SmallShardsHaveFewChunks) {
  EXPECT_EQ(ChunkPlan({.k = 512}, 8).chunks(), 1);
  EXPECT_EQ(ChunkPlan({.k = 512}, 0).chunks(), 0);
  EXPECT_EQ(ChunkPlan({.k = 1}, 1).chunks(), 1);
}

TEST(ChunkPlan, FewRowsOfALongKAreCutAlongKOnly) {
  const ChunkPlan plan({.k = 16384, .block_rows = 96}, 32);
  ASSERT_GT(plan.chunks(), 8);
  for (std::int64_t c = 0; c < plan.chunks(); ++c) {
    EXPECT_EQ(plan.chunk(c).rows, 32);
    EXPECT_EQ(plan.chunk(c).k0 % tile::kKc, 0);
  }
}

}  // namespace
}  // namespace tandem::stream
