// SPDX-License-Identifier: Apache-2.0
//
// make_plan(): its closed form against a walk through every chunk and every row block, as the
// engines go; that its choice is the best of what it may choose; what it says of bounds; and what
// it refuses.
#include "tandem/plan.h"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stream/row_blocks.h"
#include "tile/contract.h"

namespace tandem::stream {
namespace {

/// A machine on which nothing but arithmetic and the link takes time.
PlanMachine ideal(double flops, double bytes_per_second, std::chrono::nanoseconds latency) {
  return {.rank_flops = flops,
          .link = {.bytes_per_second = bytes_per_second, .latency = latency},
          .memory_bytes_per_second = 1e18,
          .chunk_seconds = 0};
}

/// Rank 0 of `s.ranks`, walking its row blocks and waiting for the chunks of each K-block.
double walk(const PlanShape& s, const PlanMachine& m, const PlanChoice& choice) {
  const ChunkPlan plan({.k = s.k,
                        .element_bytes = s.element_bytes,
                        .tile_m = choice.tile_m,
                        .tile_k = choice.tile_k,
                        .block_rows = s.block_rows},
                       s.rows);
  const std::vector<ChunkPlan> shards(static_cast<std::size_t>(s.ranks), plan);
  const double row_bytes = static_cast<double>(s.k * s.element_bytes);
  const double sources = m.wiring == Wiring::mesh ? s.ranks - 1 : 1;
  const RowCosts costs{
      .work = 2 * static_cast<double>(s.k) * static_cast<double>(s.n) / m.rank_flops,
      .pass = row_bytes * static_cast<double>(s.n) / m.memory_bytes_per_second,
      .link = row_bytes / m.link.bytes_per_second / sources};
  const auto blocks =
      plan_row_blocks(shards, {.own = 0,
                               .most_rows = s.block_rows,
                               .quantum = s.block_quantum,
                               .merge_own = false,
                               .shared_rows = rows_to_share(costs, s.block_rows, s.block_quantum)});
  // When the chunks of peer 1, then 2, … have passed the ingress, one after the other.
  std::vector<std::vector<double>> arrivals;
  double bytes = 0;
  for (int peer = 1; peer < s.ranks; ++peer) {
    auto& own = arrivals.emplace_back();
    if (m.wiring == Wiring::mesh) bytes = 0;
    for (std::int64_t c = 0; c < plan.chunks(); ++c) {
      const Chunk chunk = plan.chunk(c);
      bytes += static_cast<double>(chunk.rows * chunk.cols * s.element_bytes);
      own.push_back(bytes / m.link.bytes_per_second +
                    std::chrono::duration<double>(m.link.latency).count());
    }
  }
  double now = 0;
  for (const RowBlock& block : blocks) {
    const double work = 2 * static_cast<double>(block.rows) * static_cast<double>(s.n) /
                        m.rank_flops;  // for each column of A
    for (std::int64_t k0 = 0; k0 < s.k; k0 += tile::kKc) {
      const std::int64_t k_end = std::min(s.k, k0 + tile::kKc);
      for (std::int64_t row = block.row0; row < block.row0 + block.rows;) {
        const std::int64_t rank = row / s.rows;
        const std::int64_t end = std::min(block.row0 + block.rows, (rank + 1) * s.rows);
        if (rank > 0) {
          const auto needed = plan.needed(end - rank * s.rows, k_end);
          now = std::max(
              now,
              arrivals[static_cast<std::size_t>(rank - 1)][static_cast<std::size_t>(needed - 1)]);
        }
        row = end;
      }
      now += work * static_cast<double>(k_end - k0);
    }
  }
  return now;
}

TEST(Plan, ClosedFormEqualsAWalkThroughAllChunks) {
  std::mt19937_64 random(4096);
  const auto pick = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  int bound_by_link = 0, merged = 0, along_k = 0;
  for (int round = 0; round < 3000; ++round) {
    PlanShape s{.ranks = static_cast<int>(pick(2, 12)),
                .rows = round % 2 == 0 ? pick(1, 100) : pick(97, 1500),
                .k = round % 4 < 2 ? 256 * pick(1, 20) : pick(1, 3000),
                .n = pick(1, 2000),
                .element_bytes = pick(1, 4),
                .block_quantum = pick(1, 24)};
    s.block_rows = 96 / s.block_quantum * s.block_quantum;
    PlanMachine m = ideal(1e11, std::exp(std::uniform_real_distribution(17.0, 24.0)(random)),
                          std::chrono::nanoseconds(pick(0, 200'000)));
    if (pick(0, 3) == 0) m.wiring = Wiring::mesh;
    PlanChoice choice;
    if (pick(0, 1) == 0) choice.tile_m = pick(1, s.rows);
    if (pick(0, 2) == 0 && s.k % tile::kKc == 0) choice.tile_k = tile::kKc * pick(1, 4);
    auto plan = make_plan(s, m, choice);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    choice = {.tile_m = plan->tile_m, .tile_k = plan->tile_k};
    SCOPED_TRACE(testing::Message()
                 << s.ranks << " ranks of " << s.rows << " rows, K " << s.k << ", N " << s.n
                 << ", blocks of " << s.block_rows << " by " << s.block_quantum << ", tile "
                 << choice.tile_m << " x " << choice.tile_k << ", " << name(m.wiring));
    const double walked = walk(s, m, choice) * 1e3;
    ASSERT_NEAR(plan->fused_ms, walked, 1e-6 * walked);
    bound_by_link += plan->bound == Bound::link ? 1 : 0;
    merged += s.rows * 2 <= s.block_rows && s.ranks > 2 ? 1 : 0;
    along_k += plan->tile_k < s.k && plan->chunks_per_source > 1 ? 1 : 0;
  }
  // All that the closed form tells apart was met.
  EXPECT_GT(bound_by_link, 300);
  EXPECT_LT(bound_by_link, 2700);
  EXPECT_GT(merged, 300);
  EXPECT_GT(along_k, 300);
}

TEST(Plan, ItsChoiceIsAsGoodAsAnyTile) {
  for (std::int64_t n : {32, 512, 4096}) {
    for (std::int64_t rows : {20, 300, 2048}) {
      const PlanShape shape{.ranks = 8, .rows = rows, .k = 2048, .n = n, .block_quantum = 16};
      const PlanMachine machine;
      const auto best = make_plan(shape, machine);
      ASSERT_TRUE(best.ok());
      for (std::int64_t tile_m : {1, 8, 24, 64, 96, 192, 500, 2048}) {
        for (std::int64_t tile_k : {256, 1024, 2048}) {
          if (rows > shape.block_rows && tile_k < shape.k) continue;  // never chosen by itself
          const auto other = make_plan(shape, machine, {.tile_m = tile_m, .tile_k = tile_k});
          ASSERT_TRUE(other.ok());
          EXPECT_LE(best->fused_ms, 1.0101 * other->fused_ms)
              << rows << " rows, N " << n << ", tile " << tile_m << " x " << tile_k;
        }
      }
    }
  }
}

TEST(Plan, ChunksAreRowBlocksWhereTheLinkBounds) {
  const auto plan =
      make_plan({.ranks = 4, .rows = 1024, .k = 2048, .n = 64, .block_quantum = 16}, {});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->bound, Bound::link);
  EXPECT_EQ(plan->chunk_rows, 96);
}

TEST(Plan, ChunksAreCoarserWhereComputeBoundsAndEachCosts) {
  const PlanShape shape{.ranks = 16, .rows = 1024, .k = 512, .n = 1024, .block_quantum = 16};
  PlanMachine machine{.link = {.bytes_per_second = 1e10}};
  const auto costly = make_plan(shape, machine);
  machine.chunk_seconds = 0;
  const auto free = make_plan(shape, machine);
  ASSERT_TRUE(costly.ok() && free.ok());
  EXPECT_EQ(costly->bound, Bound::compute);
  EXPECT_GT(costly->chunk_rows, 96);
  EXPECT_EQ(free->chunk_rows, 96);
}

TEST(Plan, BytesCrossOncePerMachine) {
  const PlanShape shape{.ranks = 32, .rows = 256, .k = 2048, .n = 256};
  const PlanMachine machine{.ranks_per_node = 8};
  const auto chosen = make_plan(shape, machine);
  const auto flat = make_plan(shape, machine, {.once_per_machine = false});
  ASSERT_TRUE(chosen.ok() && flat.ok());
  EXPECT_TRUE(chosen->once_per_machine);
  EXPECT_EQ(chosen->machines, 4);
  EXPECT_DOUBLE_EQ(chosen->wire_bytes, 24.0 * 256 * 2048 * 2);
  EXPECT_DOUBLE_EQ(flat->wire_bytes, 8 * chosen->wire_bytes);
  EXPECT_GT(flat->fused_ms, 5 * chosen->fused_ms);
}

TEST(Plan, WithinAMachineReadersPull) {
  const PlanShape shape{.ranks = 8, .rows = 256, .k = 2048, .n = 256};
  const PlanMachine machine{.ranks_per_node = 8};
  const auto chosen = make_plan(shape, machine);
  const auto push = make_plan(shape, machine, {.transfer = Transfer::push});
  ASSERT_TRUE(chosen.ok() && push.ok());
  EXPECT_EQ(chosen->transfer, Transfer::pull);
  EXPECT_EQ(chosen->wire_bytes, 0);
  EXPECT_GT(push->fused_ms, chosen->fused_ms);
  EXPECT_EQ(chosen->chunks_per_source, ChunkPlan({.k = 2048, .block_rows = 96}, 256).chunks());
}

TEST(Plan, TheNThatItNamesIsWhereComputeEqualsCommunication) {
  PlanShape shape{.ranks = 4096, .rows = 512, .k = 2048, .n = 64};
  const PlanMachine machine;
  const auto before = make_plan(shape, machine);
  ASSERT_TRUE(before.ok());
  EXPECT_EQ(before->bound, Bound::link);
  shape.n = std::llround(before->compute_bound_from_n);
  const auto there = make_plan(shape, machine);
  ASSERT_TRUE(there.ok());
  EXPECT_NEAR(there->compute_ms, there->comm_ms, 0.02 * there->comm_ms);

  shape.n = 64;
  PlanMachine faster = machine;
  faster.link.bytes_per_second = before->compute_bound_from_bandwidth;
  const auto fast = make_plan(shape, faster);
  ASSERT_TRUE(fast.ok());
  EXPECT_NEAR(fast->compute_ms, fast->comm_ms, 0.02 * fast->comm_ms);
}

TEST(Plan, NamesEachBound) {
  const auto bound = [](const PlanShape& shape, const PlanMachine& machine) {
    const auto plan = make_plan(shape, machine);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    return plan.ok() ? plan->bound : Bound::compute;
  };
  EXPECT_EQ(bound({.ranks = 2}, {}), Bound::compute);
  EXPECT_EQ(bound({.ranks = 2, .n = 8}, {}), Bound::link);
  EXPECT_EQ(bound({.ranks = 2, .rows = 1}, {.link = {.bytes_per_second = 1e9}}), Bound::weights);
  EXPECT_EQ(bound({.ranks = 2, .rows = 4, .k = 64, .n = 64}, {}), Bound::latency);
  EXPECT_EQ(bound({.ranks = 4096, .rows = 1, .k = 64, .n = 64}, {}), Bound::chunks);
  EXPECT_EQ(bound({.ranks = 4, .n = 1}, {.ranks_per_node = 4, .memory_bytes_per_second = 1e9}),
            Bound::memory);
}

TEST(Plan, FiguresFollowFromTheTimes) {
  const auto plan = make_plan({.ranks = 8, .rows = 256}, {});
  ASSERT_TRUE(plan.ok());
  EXPECT_DOUBLE_EQ(plan->sequential_ms, plan->compute_ms + plan->comm_ms);
  EXPECT_DOUBLE_EQ(plan->speedup, plan->sequential_ms / plan->fused_ms);
  EXPECT_NEAR(plan->exposed_comm_ms, plan->fused_ms - plan->compute_ms, 1e-9);
  EXPECT_DOUBLE_EQ(plan->pipelined_over_max,
                   plan->fused_ms / std::max(plan->compute_ms, plan->comm_ms));
  EXPECT_NEAR(plan->overlap_efficiency,
              (plan->comm_ms + plan->compute_ms - plan->fused_ms) /
                  std::min(plan->comm_ms, plan->compute_ms),
              1e-12);
}

TEST(Plan, RefusesWhatIsOutOfBounds) {
  const auto message = [](const PlanShape& shape, const PlanMachine& machine = {},
                          const PlanChoice& choice = {}) {
    const auto plan = make_plan(shape, machine, choice);
    EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
    return plan.status().message();
  };
  EXPECT_THAT(message({.ranks = 0}), testing::HasSubstr("ranks is 0"));
  EXPECT_THAT(message({.rows = 0}), testing::HasSubstr("rows is 0"));
  EXPECT_THAT(message({.k = -3}), testing::HasSubstr("K is -3"));
  EXPECT_THAT(message({.rows = std::int64_t{1} << 40, .k = std::int64_t{1} << 40}),
              testing::HasSubstr("rows"));
  EXPECT_THAT(message({}, {.rank_flops = 0}), testing::HasSubstr("rank_flops is 0"));
  EXPECT_THAT(message({}, {.link = {.bytes_per_second = -1}}), testing::HasSubstr("bandwidth"));
  EXPECT_THAT(message({}, {.chunk_seconds = -1}), testing::HasSubstr("chunk_seconds"));
  EXPECT_THAT(message({}, {}, {.tile_m = -1}), testing::HasSubstr("tile_m is -1"));
}

}  // namespace
}  // namespace tandem::stream
