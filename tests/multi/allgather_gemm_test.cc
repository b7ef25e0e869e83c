// SPDX-License-Identifier: Apache-2.0
//
// The operator on several ranks, bit for bit against the reference: thread and process ranks, both
// transfers, both transports, uneven and empty shards, every type, strided and zero-copy input,
// gathered output, more threads and lanes than work.
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/multi/problem.h"
#include "tests/multi/ranks.h"

namespace tandem::testing_ranks {
namespace {

struct Case {
  RanksAs as = RanksAs::threads;
  Shape shape;
  AllGatherGemmOptions options;
  std::string kernel = "auto";
};

TransportSpec sim(double gbit, int latency_us, int jitter_us = 0) {
  return {.kind = TransportKind::sim,
          .link = {.bytes_per_second = gbit * 125e6,
                   .latency = std::chrono::microseconds(latency_us),
                   .jitter = std::chrono::microseconds(jitter_us),
                   .seed = 3}};
}

/// Three calls of one operator on every rank: plain, strided with gathered A, zero-copy.
void check(const Case& c) {
  Problem problem(c.shape);
  AllGatherGemmOptions options = c.options;
  options.transport = transport_here(options.transport);
  if (options.max_rows == 0) {
    options.max_rows =
        std::max<std::int64_t>(1, *std::max_element(c.shape.rows.begin(), c.shape.rows.end()));
  }
  run_ranks(c.as, static_cast<int>(c.shape.rows.size()), [&](const World& world) {
    auto weights = problem.weights(c.kernel);
    ASSERT_TRUE(weights.ok()) << weights.status().message();
    auto op = AllGatherGemm::create(world, *weights, options);
    ASSERT_TRUE(op.ok()) << op.status().message();
    const ConstMatrix a = problem.a(world.rank());
    Buffer result(c.shape.c_type, c.shape.m(), c.shape.n);
    Status status = op->run({.a = a, .c = result.view(), .rows = c.shape.rows});
    ASSERT_TRUE(status.ok()) << status.message();
    problem.expect_equal(result.view());

    Buffer strided_a(a.type, a.rows, a.cols, 5),
        strided_c(c.shape.c_type, c.shape.m(), c.shape.n, 7),
        gathered(a.type, c.shape.m(), c.shape.k, 2);
    for (std::int64_t i = 0; i < a.rows; ++i) {
      std::memcpy(strided_a.view().row(i), a.row(i),
                  static_cast<std::size_t>(a.cols) * size_of(a.type));
    }
    status = op->run({.a = strided_a.view(),
                      .c = strided_c.view(),
                      .rows = c.shape.rows,
                      .gathered_a = gathered.view()});
    strided_a.poison();  // the caller's A is free again, whoever has yet to compute with it
    ASSERT_TRUE(status.ok()) << status.message();
    problem.expect_equal(strided_c.view());
    EXPECT_TRUE(strided_c.gaps_intact());
    EXPECT_TRUE(gathered.gaps_intact());
    auto same = compare(gathered.view(), problem.a());
    ASSERT_TRUE(same.ok());
    EXPECT_TRUE(same->equal()) << same->text();

    if (options.transfer != Transfer::pull || options.workspace == Workspace::staged) return;
    auto input = op->acquire_input(a.rows);
    ASSERT_TRUE(input.ok()) << input.status().message();
    for (std::int64_t i = 0; i < a.rows; ++i) {
      std::memcpy(input->row(i), a.row(i), static_cast<std::size_t>(a.cols) * size_of(a.type));
    }
    result.poison();
    status = op->run({.a = *input, .c = result.view(), .rows = c.shape.rows});
    ASSERT_TRUE(status.ok()) << status.message();
    problem.expect_equal(result.view());
  });
}

/// Uneven rows for `ranks` ranks, one of them empty when there are three or more.
std::vector<std::int64_t> uneven(int ranks) {
  const std::vector<std::int64_t> pattern{100, 0, 333, 7, 64, 1, 250, 31};
  return {pattern.begin(), pattern.begin() + ranks};
}

class AllGatherGemmRanks
    : public testing::TestWithParam<std::tuple<RanksAs, int, Transfer, TransportKind>> {};

TEST_P(AllGatherGemmRanks, EqualsTheReferenceBitForBit) {
  const auto [as, ranks, transfer, kind] = GetParam();
  Case c{.as = as, .shape = {.rows = uneven(ranks), .k = 777, .n = 131}};
  c.options.transfer = transfer;
  if (kind == TransportKind::sim) c.options.transport = sim(8, 50, 100);
  c.options.compute_threads = ranks % 2 + 1;
  c.options.comm_threads = ranks % 3 + 1;
  check(c);
}

INSTANTIATE_TEST_SUITE_P(All, AllGatherGemmRanks,
                         testing::Combine(testing::Values(RanksAs::threads, RanksAs::processes),
                                          testing::Values(1, 2, 3, 5, 8),
                                          testing::Values(Transfer::pull, Transfer::push),
                                          testing::Values(TransportKind::shm, TransportKind::sim)),
                         [](const auto& param) {
                           return testing::PrintToString(std::get<0>(param.param)) + "_" +
                                  std::to_string(std::get<1>(param.param)) + "_" +
                                  std::string(name(std::get<2>(param.param))) + "_" +
                                  std::string(name(std::get<3>(param.param)));
                         });

class AllGatherGemmTypes : public testing::TestWithParam<std::tuple<DType, DType, BLayout>> {};

TEST_P(AllGatherGemmTypes, EqualsTheReferenceBitForBit) {
  const auto [a_type, c_type, layout] = GetParam();
  check({.shape = {.rows = {33, 70, 5},
                   .k = 300,
                   .n = 97,
                   .a_type = a_type,
                   .c_type = c_type,
                   .layout = layout}});
}

INSTANTIATE_TEST_SUITE_P(All, AllGatherGemmTypes,
                         testing::Combine(testing::Values(DType::f16, DType::bf16, DType::f32),
                                          testing::Values(DType::f32, DType::f16, DType::bf16),
                                          testing::Values(BLayout::kn, BLayout::nk)));

TEST(AllGatherGemm, EveryRunnableKernelGivesTheSameBits) {
  for (const KernelInfo& kernel : system_info().kernels) {
    if (!kernel.runnable || kernel.type == DType::s8) continue;
    SCOPED_TRACE(kernel.target + " " + std::string(name(kernel.type)));
    check({.shape = {.rows = {50, 41}, .k = 600, .n = 70, .a_type = kernel.type},
           .kernel = kernel.target});
  }
}

TEST(AllGatherGemm, FewRowsOfALongKTravelInChunksAlongK) {
  for (Transfer transfer : {Transfer::pull, Transfer::push}) {
    Case c{.shape = {.rows = {4, 1, 8}, .k = 9000, .n = 80}};
    c.options.transfer = transfer;
    c.options.transport = sim(1, 20, 300);
    c.options.comm_threads = 3;
    check(c);
  }
}

TEST(AllGatherGemm, TileSizesDoNotChangeTheBits) {
  for (auto [tile_m, tile_k] :
       std::vector<std::pair<int, int>>{{1, 1}, {7, 100}, {64, 256}, {999, 5000}}) {
    Case c{.shape = {.rows = {90, 75}, .k = 530, .n = 64}};
    c.options.tile_m = tile_m;
    c.options.tile_k = tile_k;
    c.options.comm_threads = 2;
    check(c);
  }
}

TEST(AllGatherGemm, ShardsPassThroughABoundedWindow) {
  for (Transfer transfer : {Transfer::pull, Transfer::push}) {
    for (int stages : {1, 2, 5}) {
      for (TransportKind kind : {TransportKind::shm, TransportKind::sim}) {
        Case c{.shape = {.rows = {100, 0, 333, 7}, .k = 300, .n = 90}};
        c.options.transfer = transfer;
        c.options.workspace = Workspace::staged;
        c.options.stage_rows = 24;
        c.options.stages = stages;
        c.options.comm_threads = 2;
        if (kind == TransportKind::sim) c.options.transport = sim(8, 20, 100);
        check(c);
      }
    }
  }
}

TEST(AllGatherGemm, MoreThreadsThanWork) {
  Case c{.shape = {.rows = {1, 2}, .k = 3, .n = 1}};
  c.options.compute_threads = 9;
  c.options.comm_threads = 5;
  check(c);
}

TEST(AllGatherGemm, NoRowsAtAll) {
  Case c;
  c.shape = {.rows = {0, 0, 0}, .k = 8, .n = 8};
  check(c);
}

TEST(AllGatherGemm, EachRankMayHaveItsOwnColumns) {
  Problem left({.rows = {40, 30}, .k = 200, .n = 50, .seed = 1});
  Problem right({.rows = {40, 30}, .k = 200, .n = 21, .seed = 1});
  run_ranks(RanksAs::threads, 2, [&](const World& world) {
    Problem& mine = world.rank() == 0 ? left : right;
    auto weights = mine.weights();
    ASSERT_TRUE(weights.ok());
    auto op = AllGatherGemm::create(world, *weights, {.max_rows = 40});
    ASSERT_TRUE(op.ok()) << op.status().message();
    Buffer c(DType::f32, 70, mine.shape().n);
    const Status status =
        op->run({.a = mine.a(world.rank()), .c = c.view(), .rows = mine.shape().rows});
    ASSERT_TRUE(status.ok()) << status.message();
    mine.expect_equal(c.view());
  });
}

TEST(AllGatherGemm, ManyMoreRanksThanCores) {
  std::vector<std::int64_t> rows(64);
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = static_cast<std::int64_t>(r % 5);
  check({.as = RanksAs::threads, .shape = {.rows = rows, .k = 100, .n = 40}});
}

}  // namespace
}  // namespace tandem::testing_ranks
