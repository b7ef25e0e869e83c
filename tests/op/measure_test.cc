// SPDX-License-Identifier: Apache-2.0
//
// measure(): figures that follow from each other, on every rank the same, with a verified result.
// No test depends on how long anything took.
#include "tandem/measure.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem {
namespace {

std::vector<Result<Measurement>> measure_on_threads(const MeasureSpec& spec) {
  auto worlds = World::threads(static_cast<int>(spec.rows.size()));
  EXPECT_TRUE(worlds.ok()) << worlds.status().message();
  std::vector<Result<Measurement>> results(spec.rows.size(), Status(StatusCode::kInternal, ""));
  std::vector<std::thread> ranks;
  for (std::size_t r = 0; r < spec.rows.size(); ++r) {
    ranks.emplace_back([&, r] { results[r] = measure((*worlds)[r], spec); });
  }
  for (auto& rank : ranks) rank.join();
  return results;
}

TEST(Measure, FiguresFollowFromTheTimes) {
  for (Transfer transfer : {Transfer::pull, Transfer::push}) {
    MeasureSpec spec{.rows = {70, 0, 33}, .k = 200, .n = 90, .iterations = 3, .warmup = 1};
    spec.options.transfer = transfer;
    const auto results = measure_on_threads(spec);
    for (const auto& result : results) {
      ASSERT_TRUE(result.ok()) << result.status().message();
      const Measurement& m = *result;
      EXPECT_TRUE(m.verified) << m.mismatch;
      EXPECT_EQ(m.verified_rows, 103);
      for (const Timing& t : {m.compute_only_ms, m.comm_only_ms, m.sequential_ms, m.pipelined_ms}) {
        EXPECT_GT(t.min, 0);
        EXPECT_LE(t.min, t.median);
        EXPECT_LE(t.median, t.max);
      }
      const double compute = m.compute_only_ms.median, comm = m.comm_only_ms.median;
      const double pipelined = m.pipelined_ms.median;
      EXPECT_DOUBLE_EQ(m.speedup, m.sequential_ms.median / pipelined);
      EXPECT_DOUBLE_EQ(m.exposed_comm_ms, pipelined - compute);
      EXPECT_DOUBLE_EQ(m.pipelined_over_max, pipelined / std::max(comm, compute));
      EXPECT_DOUBLE_EQ(m.overlap_efficiency,
                       (comm + compute - pipelined) / std::min(comm, compute));
      EXPECT_DOUBLE_EQ(m.gflops_per_rank, 2.0 * 103 * 200 * 90 / (pipelined * 1e6));
      EXPECT_EQ(m.pipelined_ms.median, results[0]->pipelined_ms.median);
    }
  }
}

TEST(Measure, TheDequantisingOperatorIsVerifiedToo) {
  for (ActivationKind kind :
       {ActivationKind::s8, ActivationKind::s8_row_scaled, ActivationKind::quantised}) {
    for (Workspace workspace : {Workspace::full, Workspace::staged, Workspace::direct}) {
      // What is quantised on its way cannot lie in the window as it is.
      if (kind == ActivationKind::quantised && workspace == Workspace::direct) continue;
      MeasureSpec spec{.rows = {70, 0, 33},
                       .k = 200,
                       .n = 90,
                       .a_type = kind == ActivationKind::quantised ? DType::bf16 : DType::s8,
                       .c_type = DType::f16,
                       .activations = kind,
                       .bias = workspace != Workspace::staged,
                       .saturate = workspace == Workspace::staged,
                       .iterations = 2,
                       .warmup = 1};
      spec.options.workspace = workspace;
      spec.options.stage_rows = 16;
      for (const auto& result : measure_on_threads(spec)) {
        ASSERT_TRUE(result.ok()) << result.status().message();
        EXPECT_TRUE(result->verified) << result->mismatch;
        EXPECT_EQ(result->verified_rows, 103);
      }
    }
  }
}

TEST(Measure, ABudgetThatIsSpentLeavesOneVerifiedRound) {
  MeasureSpec spec{.rows = {40, 30}, .k = 300, .n = 90, .iterations = 1000000, .warmup = 7};
  spec.time_budget = std::chrono::milliseconds(1);
  spec.options.workspace = Workspace::direct;
  std::vector<double> fractions;
  spec.progress = [&](double done) { fractions.push_back(done); };
  for (const auto& result : measure_on_threads(spec)) {
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_TRUE(result->verified) << result->mismatch;
    EXPECT_GE(result->iterations, 1);
    EXPECT_LT(result->iterations, 1000);
  }
  EXPECT_DOUBLE_EQ(fractions.back(), 1.0);
}

TEST(Measure, AcceptsNoWarmupAndReportsProgressToTheEnd) {
  std::vector<double> fractions;
  MeasureSpec spec{.rows = {5}, .k = 10, .n = 10, .iterations = 2, .warmup = 0};
  spec.progress = [&](double done) { fractions.push_back(done); };
  const auto results = measure_on_threads(spec);
  ASSERT_TRUE(results[0].ok()) << results[0].status().message();
  ASSERT_FALSE(fractions.empty());
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
  EXPECT_DOUBLE_EQ(fractions.back(), 1.0);
}

TEST(Measure, NamesBadArguments) {
  const auto message = [](MeasureSpec spec) {
    return measure_on_threads(spec)[0].status().message();
  };
  EXPECT_THAT(message({.rows = {5}, .k = 0, .n = 10}), testing::HasSubstr("K is 0"));
  EXPECT_THAT(message({.rows = {5}, .k = 5, .n = -2}), testing::HasSubstr("N is -2"));
  EXPECT_THAT(message({.rows = {5}, .k = 5, .n = 2, .iterations = 0}),
              testing::HasSubstr("iterations is 0"));
  EXPECT_THAT(message({.rows = {-5}, .k = 5, .n = 2}), testing::HasSubstr("rows is -5"));
  EXPECT_THAT(message({.rows = {5}, .k = 5, .n = 2, .a_type = DType::s8}),
              testing::HasSubstr("A has type s8"));
}

}  // namespace
}  // namespace tandem
