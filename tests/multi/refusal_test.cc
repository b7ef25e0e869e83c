// SPDX-License-Identifier: Apache-2.0
//
// Refusals: a rank that finds its own arguments wrong tells the others at once. Every rank gets an
// error that names it and its reason, long before any deadline, and goes on with the same world,
// and after a call with the same operator. The deadline here is an hour: who waits for it hangs.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/multi/problem.h"
#include "tests/multi/ranks.h"

namespace tandem::testing_ranks {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::chrono::hours kNever{1};

struct Case {
  RanksAs as = RanksAs::threads;
  TransportKind kind = TransportKind::shm;
  Transfer transfer = Transfer::pull;
  Workspace workspace = Workspace::full;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.as << '_' << name(c.kind) << '_' << name(c.transfer) << '_' << name(c.workspace);
}

class Refusal : public testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] StreamOptions options() const {
    return {.max_rows = 40,
            .transfer = GetParam().transfer,
            .transport = transport_here({.kind = GetParam().kind, .link = {.latency = {}}}),
            .workspace = GetParam().workspace,
            .stage_rows = 8};
  }
};

/// The rank's rows, in the window where the workspace wants that.
ConstMatrix input(AllGatherGemm& op, Workspace workspace, ConstMatrix a) {
  if (workspace != Workspace::direct) return a;
  auto place = op.acquire_input(a.rows);
  EXPECT_TRUE(place.ok()) << place.status().message();
  if (!place.ok()) return a;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    std::memcpy(place->row(i), a.row(i), static_cast<std::size_t>(a.cols) * size_of(a.type));
  }
  return *place;
}

TEST_P(Refusal, OfACallNamesTheRankAndTheNextCallIsRight) {
  Problem p({.rows = {10, 20, 30}, .k = 600, .n = 16});
  run_ranks(
      GetParam().as, 3,
      [&](const World& world) {
        auto op = AllGatherGemm::create(world, p.weights(), options());
        ASSERT_TRUE(op.ok()) << op.status().message();
        Buffer c(DType::f32, p.shape().m(), 16);
        for (int round = 0; round < 6; ++round) {
          const ConstMatrix a = input(*op, GetParam().workspace, p.a(world.rank()));
          AllGatherGemmCall call{.a = a, .c = c.view(), .rows = p.shape().rows};
          const int culprit = round % 3;
          if (world.rank() == culprit) call.c.data = nullptr;
          const Status refused = op->run(call);
          EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused.message();
          EXPECT_THAT(refused.message(), HasSubstr("data pointer is null"));
          if (world.rank() != culprit) {
            EXPECT_THAT(refused.message(),
                        AllOf(HasSubstr("rank " + std::to_string(culprit) + " refuses call")));
          }
          for (int good = 0; good < 2; ++good) {
            c.poison();
            const ConstMatrix again = input(*op, GetParam().workspace, p.a(world.rank()));
            const Status status = op->run({.a = again, .c = c.view(), .rows = p.shape().rows});
            ASSERT_TRUE(status.ok()) << "round " << round << ": " << status.message();
            p.expect_equal(c.view());
          }
        }
      },
      kNever);
}

TEST_P(Refusal, OfACallWhilePeersEndTheOneBefore) {
  // Rank 0 brings no rows and has long refused call 2 when the others are still in call 1, which
  // must end well.
  Problem p({.rows = {0, 40, 40}, .k = 3000, .n = 64});
  run_ranks(
      GetParam().as, 3,
      [&](const World& world) {
        auto op = AllGatherGemm::create(world, p.weights(), options());
        ASSERT_TRUE(op.ok()) << op.status().message();
        Buffer c(DType::f32, p.shape().m(), 64);
        for (int round = 0; round < 4; ++round) {
          c.poison();
          const ConstMatrix a = input(*op, GetParam().workspace, p.a(world.rank()));
          const Status status = op->run({.a = a, .c = c.view(), .rows = p.shape().rows});
          ASSERT_TRUE(status.ok()) << status.message();
          p.expect_equal(c.view());
          const ConstMatrix next = input(*op, GetParam().workspace, p.a(world.rank()));
          std::vector<std::int64_t> rows = p.shape().rows;
          if (world.rank() == 0) rows.pop_back();
          const Status refused = op->run({.a = next, .c = c.view(), .rows = rows});
          EXPECT_THAT(refused.message(), HasSubstr("rows has 2 entries for 3 ranks"));
        }
      },
      kNever);
}

TEST_P(Refusal, OfRowsThatDisagreeLetsTheNextCallSucceed) {
  Problem p({.rows = {10, 20, 30}, .k = 600, .n = 16});
  run_ranks(
      GetParam().as, 3,
      [&](const World& world) {
        auto op = AllGatherGemm::create(world, p.weights(), options());
        ASSERT_TRUE(op.ok()) << op.status().message();
        for (int round = 0; round < 4; ++round) {
          std::vector<std::int64_t> rows = p.shape().rows;
          if (world.rank() == 2) rows[0] = 11;
          Buffer other(DType::f32, 61, 16), c(DType::f32, 60, 16);
          Matrix c_view = world.rank() == 2 ? other.view() : c.view();
          const ConstMatrix a = input(*op, GetParam().workspace, p.a(world.rank()));
          EXPECT_EQ(op->run({.a = a, .c = c_view, .rows = rows}).code(), StatusCode::kMismatch);
          const ConstMatrix next = input(*op, GetParam().workspace, p.a(world.rank()));
          const Status status = op->run({.a = next, .c = c.view(), .rows = p.shape().rows});
          ASSERT_TRUE(status.ok()) << status.message();
          p.expect_equal(c.view());
        }
      },
      kNever);
}

constexpr Case kCases[] = {
    {},
    {.transfer = Transfer::push},
    {.workspace = Workspace::staged},
    {.transfer = Transfer::push, .workspace = Workspace::staged},
    {.workspace = Workspace::direct},
    {.kind = TransportKind::sim, .workspace = Workspace::staged},
    {.as = RanksAs::processes},
};
INSTANTIATE_TEST_SUITE_P(Kinds, Refusal, testing::ValuesIn(kCases),
                         [](const auto& param) { return testing::PrintToString(param.param); });

TEST(RefusalAtCreation, OfOptionsWeightsOrTypesNamesTheRank) {
  Problem p({.rows = {10, 20, 30}, .k = 64, .n = 16});
  run_ranks(
      RanksAs::threads, 3,
      [&](const World& world) {
        const bool culprit = world.rank() == 1;
        const auto expect = [&](const Status& status, const char* reason) {
          EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.message();
          EXPECT_THAT(status.message(), HasSubstr(reason));
          if (!culprit) {
            EXPECT_THAT(status.message(), HasSubstr("rank 1 refuses"));
          }
        };
        for (int round = 0; round < 3; ++round) {
          expect(AllGatherGemm::create(world, p.weights(), {.max_rows = culprit ? 0 : 40}).status(),
                 "max_rows is 0");
          auto unpacked = culprit ? PackedWeights::pack(ConstMatrix{}) : p.weights();
          expect(AllGatherGemm::create(world, std::move(unpacked), {.max_rows = 40}).status(),
                 "K is 0");
          expect(AllGatherGemm::create(world, p.weights(),
                                       {.max_rows = 40, .comm_threads = culprit ? 99 : 1})
                     .status(),
                 "comm_threads is 99");
          // Its program could not even come that far.
          if (culprit) {
            expect(world.refuse({StatusCode::kInvalidArgument, "no such file"}), "no such file");
          } else {
            expect(AllGatherGemm::create(world, p.weights(), {.max_rows = 40}).status(),
                   "no such file");
          }
        }
        auto op = AllGatherGemm::create(world, p.weights(), {.max_rows = 40});
        ASSERT_TRUE(op.ok()) << op.status().message();
        Buffer c(DType::f32, 60, 16);
        ASSERT_TRUE(op->run({.a = p.a(world.rank()), .c = c.view(), .rows = p.shape().rows}).ok());
        p.expect_equal(c.view());
      },
      kNever);
}

TEST(RefusalAtCreation, RanksInDifferentCollectivesAreToldWhich) {
  Problem p({.rows = {10, 20}, .k = 64, .n = 16});
  run_ranks(
      RanksAs::threads, 2,
      [&](const World& world) {
        const Status status =
            world.rank() == 0
                ? world.barrier()
                : AllGatherGemm::create(world, p.weights(), {.max_rows = 40}).status();
        EXPECT_EQ(status.code(), StatusCode::kMismatch) << status.message();
        EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 0 waits in barrier()"),
                                            HasSubstr("rank 1 creates an operator")));
        EXPECT_TRUE(world.barrier().ok());
      },
      kNever);
}

TEST(RefusalAtCreation, OfFactorsOfTheDequantisation) {
  Problem p({.rows = {4, 4}, .k = 64, .n = 16});
  std::vector<std::int8_t> b(64 * 16, 1);
  run_ranks(
      RanksAs::threads, 2,
      [&](const World& world) {
        const std::vector<float> scale(world.rank() == 1 ? 3 : 16, 0.5F);
        auto op = AllGatherGemmDequant::create(
            world, PackedWeights::pack(dense(b.data(), DType::s8, 64, 16)), {.scale = scale},
            {.max_rows = 4});
        EXPECT_EQ(op.status().code(), StatusCode::kInvalidArgument);
        EXPECT_THAT(op.status().message(), HasSubstr("scale has 3 entries for 16 columns"));
        EXPECT_TRUE(world.barrier().ok());
      },
      kNever);
}

TEST(RefusalOfAMeasurement, NamesTheRank) {
  run_ranks(
      RanksAs::threads, 2,
      [&](const World& world) {
        MeasureSpec spec{.rows = {8, 8},
                         .k = 32,
                         .n = 16,
                         .options = {.max_rows = 8},
                         .iterations = 1,
                         .warmup = 0};
        if (world.rank() == 1) spec.n = 0;
        const Status refused = measure(world, spec).status();
        EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused.message();
        EXPECT_THAT(refused.message(), HasSubstr("N is 0"));
        spec.n = 16;
        spec.kernel = world.rank() == 0 ? "no-such-kernel" : "auto";
        EXPECT_THAT(measure(world, spec).status().message(), HasSubstr("no-such-kernel"));
        spec.kernel = "auto";
        auto measured = measure(world, spec);
        ASSERT_TRUE(measured.ok()) << measured.status().message();
        EXPECT_TRUE(measured->verified);
      },
      kNever);
}

}  // namespace
}  // namespace tandem::testing_ranks
