// SPDX-License-Identifier: Apache-2.0
//
// The tiles that operators take over a link: what the model finds, the same on every rank even
// where ranks believe different things, and only where no tile was named.
#include "op/link_tiles.h"

#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

#include "tandem/tandem.h"
#include "tile/kernel.h"

namespace tandem::op {
namespace {

struct Tiles {
  std::int64_t m = 0, k = 0;
};

/// Creates an operator on every rank; rank r has columns[r] columns of B.
std::vector<Tiles> tiles_of(const std::vector<std::int64_t>& columns, std::int64_t k,
                            const StreamOptions& options) {
  auto worlds = World::threads(static_cast<int>(columns.size()));
  EXPECT_TRUE(worlds.ok()) << worlds.status().message();
  std::vector<Tiles> tiles(columns.size());
  std::vector<std::thread> ranks;
  for (std::size_t r = 0; r < columns.size(); ++r) {
    ranks.emplace_back([&, r] {
      std::vector<std::uint16_t> b(static_cast<std::size_t>(k * columns[r]));
      const auto weights = PackedWeights::pack(dense(b.data(), DType::f16, k, columns[r]));
      ASSERT_TRUE(weights.ok()) << weights.status().message();
      const auto op = AllGatherGemm::create((*worlds)[r], *weights, options);
      ASSERT_TRUE(op.ok()) << op.status().message();
      tiles[r] = {op->tile_m(), op->tile_k()};
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return tiles;
}

TEST(LinkTiles, AreTheSameOnRanksThatMultiplyDifferentColumns) {
  StreamOptions options{.max_rows = 960, .transport = {.kind = TransportKind::sim}};
  const auto tiles = tiles_of({8, 700, 64}, 512, options);
  EXPECT_GE(tiles[0].m, 64);
  for (const Tiles& t : tiles) {
    EXPECT_EQ(t.m, tiles[0].m);
    EXPECT_EQ(t.k, tiles[0].k);
  }
}

TEST(LinkTiles, SharedMemoryAndNamedTilesAreLeftAlone) {
  StreamOptions options{.max_rows = 960};
  EXPECT_EQ(tiles_of({64, 64}, 512, options)[0].m, 16);
  options.transport.kind = TransportKind::sim;
  options.tile_m = 24;
  EXPECT_EQ(tiles_of({64, 64}, 512, options)[0].m, 24);
  options.tile_m = 0;
  options.tile_k = 256;
  EXPECT_EQ(tiles_of({64, 64}, 512, options)[0].k, 256);
}

TEST(SharedRows, AreFewOnlyWhereALinkIsSlowerThanTheMultiply) {
  constexpr std::int64_t kMost = 96;
  const auto kernels = tile::kernel_table();
  const auto f16 = std::find_if(kernels.begin(), kernels.end(), [](const tile::Kernel& kernel) {
    return kernel.type == DType::f16 && kernel.target == "scalar";
  });
  ASSERT_NE(f16, kernels.end());
  block::PackedB weights;
  weights.kernel = &*f16;
  weights.k = 2048;
  weights.n = 512;
  // A row takes 20 us to multiply, and 4 KiB over this link 33 us.
  const LinkBelief belief{.row_picoseconds = 20'000'000, .bytes_per_second = 125'000'000};
  StreamOptions options;
  EXPECT_EQ(shared_rows(belief, weights, options, 1, kMost), kMost);
  options.transport.kind = TransportKind::sim;
  EXPECT_EQ(shared_rows(belief, weights, options, 1, kMost), f16->mr);
  LinkBelief fast = belief;
  fast.bytes_per_second = 1'250'000'000;
  EXPECT_EQ(shared_rows(fast, weights, options, 1, kMost), kMost);
  // With so many threads that B cannot be read fast enough: 70 us for a pass, 1 us for a row.
  LinkBelief many = belief;
  many.row_picoseconds = 1'000'000;
  EXPECT_EQ(shared_rows(many, weights, options, 1, kMost), 69);
}

TEST(LinkTiles, AreThoseOfTheModel) {
  const LinkBelief belief{.row_picoseconds = 20'000'000,  // 2048 × 512 at about 100 GFLOP/s
                          .bytes_per_second = 125'000'000,
                          .latency_nanoseconds = 50'000,
                          .row_quantum = 16};
  stream::TilePolicy policy{.k = 2048, .block_rows = 96};
  plan_for_link(belief, 2, 2048, policy);
  const auto large = make_plan({.ranks = 2, .rows = 2048, .n = 512, .block_quantum = 16},
                               {.rank_flops = 2.0 * 2048 * 512 / 20e-6});
  ASSERT_TRUE(large.ok());
  EXPECT_EQ(policy.link_tile_m, large->chunk_rows);
  EXPECT_EQ(stream::ChunkPlan(policy, 2048).chunk(0).rows, large->chunk_rows);
  // Smaller shards of the same operator have the same chunks, fewer of them.
  EXPECT_EQ(stream::ChunkPlan(policy, 500).chunk(0).rows,
            std::min<std::int64_t>(500, large->chunk_rows));
  EXPECT_EQ(stream::ChunkPlan(policy, 40).chunk(0).rows, 40);
}

TEST(LinkTiles, TheSlowestBeliefCounts) {
  const LinkBelief worst = LinkBelief{5, 100, 7, 12}.slower({3, 50, 9, 16});
  EXPECT_EQ(worst.row_picoseconds, 5);
  EXPECT_EQ(worst.bytes_per_second, 50);
  EXPECT_EQ(worst.latency_nanoseconds, 9);
  EXPECT_EQ(worst.row_quantum, 16);
}

}  // namespace
}  // namespace tandem::op
