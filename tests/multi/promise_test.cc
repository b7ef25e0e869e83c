// SPDX-License-Identifier: Apache-2.0
//
// Ranks that load at once, each of which fits while all of them do not: as many as fit get their
// memory, the others an error, and nobody is killed. What is available is pretended: a limit less
// what the ranks have really taken, as a control group would count it.
#include <fstream>

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include "platform/memory.h"
#include "tests/multi/problem.h"
#include "tests/multi/ranks.h"

namespace tandem::testing_ranks {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 4;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// A column of /proc/<process>/statm in bytes: 1 is all that is resident, 2 what is shared of it.
std::int64_t statm(int process, int column) {
  std::ifstream file("/proc/" + std::to_string(process) + "/statm");
  std::int64_t pages = 0;
  for (int i = 0; i <= column; ++i) file >> pages;
  return pages * static_cast<std::int64_t>(platform::page_size());
}

/// What ranks share with each other to play a control group.
struct Group {
  std::array<std::atomic<int>, kRanks> process{};
  std::array<std::atomic<std::int64_t>, kRanks> before{};  // private memory at the start
  std::atomic<int> granted{0}, refused{0};
};

class PromiseTest : public ::testing::Test {
 protected:
  PromiseTest() {
    void* memory =
        mmap(nullptr, sizeof(Group), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    group_ = new (memory) Group;
  }
  ~PromiseTest() override { munmap(group_, sizeof(Group)); }

  static std::int64_t private_bytes(int process) { return statm(process, 1) - statm(process, 2); }

  void join_group(int rank, std::int64_t limit) {
    const auto r = static_cast<std::size_t>(rank);
    group_->before[r].store(private_bytes(getpid()));
    group_->process[r].store(getpid());
    platform::pretend_touchable([this, limit] {
      std::int64_t left = limit;
      for (std::size_t i = 0; i < kRanks; ++i) {
        if (const int process = group_->process[i].load(); process != 0) {
          left -= private_bytes(process) - group_->before[i].load();
        }
      }
      return std::max<std::int64_t>(0, left);
    });
  }

  Group* group_ = nullptr;
};

TEST_F(PromiseTest, OfRanksThatPackAtOnceAsManyAsFitAreGranted) {
  // Packed: 64 MiB for each rank, of 160.
  constexpr std::int64_t kK = 4096, kN = 4096;
  Buffer b(DType::f32, kK, kN);
  run_ranks(RanksAs::processes, kRanks, [&](const World& world) {
    join_group(world.rank(), 160 * kMiB);
    ASSERT_TRUE(world.barrier().ok());
    auto weights = PackedWeights::pack(b.view(), {.threads = 2});
    (weights.ok() ? group_->granted : group_->refused).fetch_add(1);
    if (!weights.ok()) {
      EXPECT_EQ(weights.status().code(), StatusCode::kOutOfMemory);
      EXPECT_THAT(weights.status().message(), HasSubstr("are needed for packed weights"));
      EXPECT_THAT(weights.status().message(), HasSubstr("use smaller shapes or fewer ranks"));
    }
    ASSERT_TRUE(world.barrier().ok());  // the granted keep theirs until all have asked
    EXPECT_EQ(group_->granted.load(), 2);
    EXPECT_EQ(group_->refused.load(), 2);
  });
}

TEST_F(PromiseTest, WindowsThatDoNotFitTogetherAreRefused) {
  for (const RanksAs as : {RanksAs::threads, RanksAs::processes}) {
    // Two slots of 1000 × 4096 f32 for each rank: 31 MiB. Three of the four fit.
    Problem problem({.rows = {1, 1, 1, 1}, .k = 4096, .n = 8, .a_type = DType::f32});
    if (as == RanksAs::threads) platform::pretend_touchable([] { return 110 * kMiB; });
    run_ranks(as, kRanks, [&](const World& world) {
      if (as == RanksAs::processes) platform::pretend_touchable([] { return 110 * kMiB; });
      auto weights = problem.weights();
      ASSERT_TRUE(weights.ok()) << weights.status().message();
      ASSERT_TRUE(world.barrier().ok());
      auto op = AllGatherGemm::create(world, *weights, {.max_rows = 1000});
      ASSERT_FALSE(op.ok());
      EXPECT_EQ(op.status().code(), StatusCode::kOutOfMemory);
      // All of it has been given back: what does fit can be had.
      ASSERT_TRUE(world.barrier().ok());
      auto smaller = AllGatherGemm::create(world, *weights, {.max_rows = 500});
      EXPECT_TRUE(smaller.ok()) << smaller.status().message();
    });
    platform::pretend_touchable({});
  }
}

}  // namespace
}  // namespace tandem::testing_ranks
