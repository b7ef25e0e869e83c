// SPDX-License-Identifier: Apache-2.0
//
// What the operator says when ranks disagree, die, leave, or come late: every rank gets an error
// that names the culprit, and none hangs.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/multi/problem.h"
#include "tests/multi/ranks.h"

namespace tandem::testing_ranks {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

TEST(Failure, RanksThatDisagreeOnRowsAllGetTheMismatch) {
  Problem p({.rows = {10, 20, 30}, .k = 64, .n = 16});
  run_ranks(RanksAs::threads, 3, [&](const World& world) {
    auto weights = p.weights();
    auto op = AllGatherGemm::create(world, *weights, {.max_rows = 40});
    ASSERT_TRUE(op.ok());
    // Rank 2 believes that rank 0 brings 11 rows.
    std::vector<std::int64_t> rows = p.shape().rows;
    if (world.rank() == 2) rows[0] = 11;
    Buffer c(DType::f32, std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), 16);
    // As often as they try; refusal_test.cc has the calls that succeed afterwards.
    for (int round = 0; round < 3; ++round) {
      const Status status = op->run({.a = p.a(world.rank()), .c = c.view(), .rows = rows});
      EXPECT_EQ(status.code(), StatusCode::kMismatch) << status.message();
      EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 2"), HasSubstr("10"), HasSubstr("11"),
                                          HasSubstr("rows of rank 0")));
    }
  });
}

TEST(Failure, AMismatchIsFoundEvenWhereNoRowsTravel) {
  Problem p({.rows = {10, 0}, .k = 64, .n = 16});
  run_ranks(RanksAs::threads, 2, [&](const World& world) {
    auto weights = p.weights();
    auto op = AllGatherGemm::create(world, *weights, {.max_rows = 40});
    ASSERT_TRUE(op.ok());
    // Rank 0 believes that all rows are its own; rank 1 brings one.
    std::vector<std::int64_t> rows{10, world.rank() == 0 ? 0 : 1};
    Buffer a(DType::f16, rows[static_cast<std::size_t>(world.rank())], 64),
        c(DType::f32, 10 + rows[1], 16);
    const Status status = op->run({.a = a.view(), .c = c.view(), .rows = rows});
    EXPECT_EQ(status.code(), StatusCode::kMismatch) << status.message();
    EXPECT_THAT(status.message(), HasSubstr("rows of rank 1"));
  });
}

TEST(Failure, RanksThatDisagreeAtCreationAreNamed) {
  Problem p({.rows = {10, 20}, .k = 64, .n = 16});
  run_ranks(RanksAs::threads, 2, [&](const World& world) {
    auto weights = p.weights();
    auto op = AllGatherGemm::create(world, *weights, {.max_rows = 40 + world.rank()});
    ASSERT_FALSE(op.ok());
    EXPECT_EQ(op.status().code(), StatusCode::kMismatch);
    EXPECT_THAT(op.status().message(),
                AllOf(HasSubstr("max_rows"), HasSubstr("40"), HasSubstr("41")));
  });
}

TEST(Failure, ALateRankIsATimeoutThatNamesIt) {
  Problem p({.rows = {10, 20}, .k = 64, .n = 16});
  run_ranks(RanksAs::threads, 2, [&](const World& world) {
    auto weights = p.weights();
    auto op =
        AllGatherGemm::create(world, *weights, {.max_rows = 40, .timeout = milliseconds(200)});
    ASSERT_TRUE(op.ok());
    Buffer c(DType::f32, 30, 16);
    const AllGatherGemmCall call{.a = p.a(world.rank()), .c = c.view(), .rows = p.shape().rows};
    if (world.rank() == 1) std::this_thread::sleep_for(milliseconds(900));
    const Status status = op->run(call);
    EXPECT_EQ(status.code(), StatusCode::kTimeout) << status.message();
    ASSERT_TRUE(status.wait());
    EXPECT_EQ(status.wait()->rank, 1);
    EXPECT_EQ(status.wait()->call, 1u);
    EXPECT_THAT(status.message(), HasSubstr("rank 1"));
  });
}

TEST(Failure, ARankThatLeavesIsLost) {
  Problem p({.rows = {10, 20, 5}, .k = 64, .n = 16});
  run_ranks(RanksAs::threads, 3, [&](const World& world) {
    auto weights = p.weights();
    auto op = AllGatherGemm::create(world, *weights, {.max_rows = 40});
    ASSERT_TRUE(op.ok());
    if (world.rank() == 1) return;
    Buffer c(DType::f32, 35, 16);
    const Status status = op->run({.a = p.a(world.rank()), .c = c.view(), .rows = p.shape().rows});
    EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.message();
    EXPECT_THAT(status.message(), HasSubstr("rank 1"));
    // The operator stays failed, with the same words.
    EXPECT_EQ(op->run({.a = p.a(world.rank()), .c = c.view(), .rows = p.shape().rows}).message(),
              status.message());
  });
}

TEST(Failure, AKilledProcessIsLostOnEveryRank) {
  // The shard of rank 2 is far larger than the time it has: it dies in the middle of its calls.
  Problem p({.rows = {200, 200, 200}, .k = 512, .n = 64});
  const auto states = fork_ranks(
      3,
      [&](const World& world) {
        auto weights = p.weights();
        auto op = AllGatherGemm::create(world, *weights, {.max_rows = 200});
        ASSERT_TRUE(op.ok()) << op.status().message();
        if (world.rank() == 2) {
          std::thread([] {
            std::this_thread::sleep_for(milliseconds(150));
            ::kill(::getpid(), SIGKILL);
          }).detach();
        }
        Buffer c(DType::f32, 600, 64);
        Status status;
        while (status.ok()) {
          status = op->run({.a = p.a(world.rank()), .c = c.view(), .rows = p.shape().rows});
        }
        EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.message();
        EXPECT_THAT(status.message(), HasSubstr("rank 2"));
      },
      std::chrono::seconds(20));
  EXPECT_EQ(states[0], 0);
  EXPECT_EQ(states[1], 0);
  EXPECT_TRUE(WIFSIGNALED(states[2]));
}

}  // namespace
}  // namespace tandem::testing_ranks
