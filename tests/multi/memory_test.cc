// SPDX-License-Identifier: Apache-2.0
//
// What a call keeps resident, per rank: with a bounded workspace, inputs, packed weights and
// output, and not gathered A. Process ranks, since threads share what is counted.
#include "platform/memory.h"

#include <vector>

#include <gtest/gtest.h>

#include "tandem/tandem.h"
#include "tests/multi/ranks.h"

namespace tandem::testing_ranks {
namespace {

constexpr int kRanks = 2;
constexpr std::int64_t kRows = 60'000, kK = 2048, kN = 64;
constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kShard = kRows * kK / kMiB;
constexpr double kOutput = kRanks * kRows * kN * 2 / kMiB;
constexpr double kWeights = 2 * kK * kN / kMiB;  // as given, and packed

/// Peak resident MiB above what the process had before it had any of the call's data.
double peak_of_call(const World& world, Workspace workspace) {
  platform::forget_peak_rss();
  const double before = platform::peak_rss_mib();
  std::vector<std::int8_t> b(static_cast<std::size_t>(kK * kN), 3);
  std::vector<std::uint16_t> c(static_cast<std::size_t>(kRanks * kRows * kN), 0xffff);
  auto weights = PackedWeights::pack(dense(b.data(), DType::s8, kK, kN));
  if (!weights.ok()) return -1;
  const float scale = 0.25F;
  auto op = AllGatherGemmDequant::create(world, *weights, {.scale = {&scale, 1}},
                                         {.max_rows = kRows, .workspace = workspace});
  if (!op.ok()) return -1;
  std::vector<std::int8_t> own;
  Matrix a;
  if (workspace == Workspace::direct) {
    auto place = op->acquire_input(kRows);
    if (!place.ok()) return -1;
    a = *place;
    fill_random(a, 1);
  } else {
    own.assign(static_cast<std::size_t>(kRows * kK), 1);
    a = dense(own.data(), DType::s8, kRows, kK);
  }
  const Status status = op->run({.a = a, .c = dense(c.data(), DType::f16, kRanks * kRows, kN)});
  EXPECT_TRUE(status.ok()) << status.message();
  return platform::peak_rss_mib() - before;
}

TEST(Memory, ABoundedWorkspaceDoesNotGrowWithTheRows) {
  run_ranks(RanksAs::processes, kRanks, [](const World& world) {
    constexpr double kSpare = 64;
    const double staged = peak_of_call(world, Workspace::staged);
    EXPECT_GT(staged, kShard);  // or nothing was measured
    EXPECT_LE(staged, kShard + kOutput + kWeights + kSpare);
    // Here a rank reads its peers' rows where they are; they count as inputs.
    const double direct = peak_of_call(world, Workspace::direct);
    EXPECT_GT(direct, kShard);
    EXPECT_LE(direct, kRanks * kShard + kOutput + kWeights + kSpare);
    // What the bound is against.
    EXPECT_GT(peak_of_call(world, Workspace::full), kRanks * kShard + kOutput + kSpare);
  });
}

}  // namespace
}  // namespace tandem::testing_ranks
