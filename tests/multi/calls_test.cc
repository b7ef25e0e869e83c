// SPDX-License-Identifier: Apache-2.0
//
// Many calls of one operator: fresh data, changing shapes, random delays at protocol steps (the
// test's environment sets TANDEM_TEST_DELAYS). A notify that overtakes its write, a slot that is
// rewritten too early or a counter that is off by one shows here as wrong bits.
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "tests/multi/problem.h"
#include "tests/multi/ranks.h"

namespace tandem::testing_ranks {
namespace {

constexpr std::int64_t kMaxRows = 40;

/// Problems made beforehand, so that the calls follow each other closely.
struct Sequence {
  std::int64_t k = 0, n = 0;
  std::vector<std::unique_ptr<Problem>> problems;

  Sequence(int ranks, std::int64_t k_, std::int64_t n_, int distinct) : k(k_), n(n_) {
    std::mt19937_64 random(99);
    for (int i = 0; i < distinct; ++i) {
      Shape shape{.k = k, .n = n, .seed = static_cast<std::uint64_t>(100 + i)};
      for (int r = 0; r < ranks; ++r) {
        shape.rows.push_back(static_cast<std::int64_t>(random() % (kMaxRows + 1)));
      }
      problems.push_back(std::make_unique<Problem>(shape));
    }
  }
};

void run_calls(RanksAs as, int ranks, int calls, AllGatherGemmOptions options) {
  // The weights stay: all problems have the same B. A is another in every one.
  Sequence sequence(ranks, 300, 48, 60);
  options.max_rows = kMaxRows;
  run_ranks(as, ranks, [&](const World& world) {
    auto weights = sequence.problems[0]->weights();
    ASSERT_TRUE(weights.ok());
    auto op = AllGatherGemm::create(world, *weights, options);
    ASSERT_TRUE(op.ok()) << op.status().message();
    std::mt19937_64 jitter(static_cast<std::uint64_t>(world.rank()));
    for (int call = 0; call < calls; ++call) {
      Problem& p =
          *sequence.problems[static_cast<std::size_t>(call * 7) % sequence.problems.size()];
      if (jitter() % 8 == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(jitter() % 300));
      }
      const ConstMatrix a = p.a(world.rank());
      Buffer c(DType::f32, p.shape().m(), sequence.n);
      Status status;
      if (options.transfer == Transfer::pull && options.workspace == Workspace::full &&
          call % 3 == 0) {
        auto input = op->acquire_input(a.rows);
        ASSERT_TRUE(input.ok()) << input.status().message();
        for (std::int64_t i = 0; i < a.rows; ++i) {
          std::memcpy(input->row(i), a.row(i), static_cast<std::size_t>(a.cols) * size_of(a.type));
        }
        status = op->run({.a = *input, .c = c.view(), .rows = p.shape().rows});
      } else {
        status = op->run({.a = a, .c = c.view(), .rows = p.shape().rows});
      }
      ASSERT_TRUE(status.ok()) << "call " << call << ": " << status.message();
      p.expect_equal(c.view());
      if (testing::Test::HasFailure()) FAIL() << "call " << call;
    }
  });
}

TEST(Calls, AThousandWithThreadsPull) {
  run_calls(RanksAs::threads, 3, 1000, {.compute_threads = 2, .comm_threads = 2});
}

TEST(Calls, AThousandWithThreadsPush) {
  run_calls(RanksAs::threads, 3, 1000, {.transfer = Transfer::push, .comm_threads = 2});
}

TEST(Calls, AThousandWithProcessesPull) {
  run_calls(RanksAs::processes, 2, 1000, {.comm_threads = 3});
}

TEST(Calls, AThousandWithProcessesPush) {
  run_calls(RanksAs::processes, 3, 1000, {.transfer = Transfer::push});
}

// Here a source would run far ahead of its readers, were it not for their credits.
TEST(Calls, StagesAreRewrittenOnlyWhenAllHaveReadThem) {
  for (Transfer transfer : {Transfer::pull, Transfer::push}) {
    run_calls(
        RanksAs::threads, 3, 200,
        {.transfer = transfer, .comm_threads = 2, .workspace = Workspace::staged, .stage_rows = 5});
  }
}

TEST(Calls, OneStageIsEnough) {
  run_calls(RanksAs::threads, 3, 200,
            {.workspace = Workspace::staged, .stage_rows = kMaxRows, .stages = 1});
}

TEST(Calls, ArrivalsInAdversarialOrder) {
  const TransportSpec shuffled{.kind = TransportKind::sim,
                               .link = {.bytes_per_second = 1e9,
                                        .latency = std::chrono::microseconds(5),
                                        .jitter = std::chrono::microseconds(400),
                                        .seed = 11}};
  for (Transfer transfer : {Transfer::pull, Transfer::push}) {
    run_calls(RanksAs::threads, 4, 150,
              {.transfer = transfer,
               .transport = shuffled,
               .compute_threads = 2,
               .comm_threads = 3,
               .tile_m = 3,
               .tile_k = 64});
  }
}

TEST(Calls, TwoOperatorsOnOneWorldFromTwoThreads) {
  Problem first({.rows = {20, 30}, .k = 150, .n = 40, .seed = 5});
  Problem second({.rows = {31, 9}, .k = 90, .n = 33, .seed = 6});
  run_ranks(RanksAs::threads, 2, [&](const World& world) {
    std::vector<std::unique_ptr<AllGatherGemm>> ops;
    for (Problem* p : {&first, &second}) {
      auto weights = p->weights();
      ASSERT_TRUE(weights.ok());
      auto op = AllGatherGemm::create(world, *weights, {.max_rows = 64});
      ASSERT_TRUE(op.ok()) << op.status().message();
      ops.push_back(std::make_unique<AllGatherGemm>(std::move(op).value()));
    }
    const auto work = [&](AllGatherGemm& op, Problem& p) {
      for (int call = 0; call < 200; ++call) {
        Buffer c(DType::f32, p.shape().m(), p.shape().n);
        const Status status =
            op.run({.a = p.a(world.rank()), .c = c.view(), .rows = p.shape().rows});
        ASSERT_TRUE(status.ok()) << status.message();
        p.expect_equal(c.view());
      }
    };
    std::thread other([&] { work(*ops[1], second); });
    work(*ops[0], first);
    other.join();
  });
}

TEST(Calls, TwoWorldsInOneProcess) {
  Problem p({.rows = {20, 30}, .k = 150, .n = 40, .seed = 5});
  const auto body = [&](const World& world) {
    auto weights = p.weights();
    auto op = AllGatherGemm::create(world, *weights, {.max_rows = 64});
    ASSERT_TRUE(op.ok()) << op.status().message();
    for (int call = 0; call < 100; ++call) {
      Buffer c(DType::f32, p.shape().m(), p.shape().n);
      const Status status =
          op->run({.a = p.a(world.rank()), .c = c.view(), .rows = p.shape().rows});
      ASSERT_TRUE(status.ok()) << status.message();
      p.expect_equal(c.view());
    }
  };
  std::thread other([&] { run_ranks(RanksAs::threads, 2, body); });
  run_ranks(RanksAs::threads, 2, body);
  other.join();
}

}  // namespace
}  // namespace tandem::testing_ranks
