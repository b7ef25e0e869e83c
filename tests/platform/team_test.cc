// SPDX-License-Identifier: Apache-2.0
//
// Teams: who runs what, that join() waits, and that neither wake-ups nor results get lost.
#include "platform/team.h"

#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <sys/prctl.h>

namespace tandem::platform {
namespace {

std::unique_ptr<Team> make(int size, Spin spin = {}) {
  auto team = Team::create(size, "tandem-test-team", spin);
  EXPECT_TRUE(team.ok()) << team.status().message();
  return std::move(team).value();
}

class TeamTest : public ::testing::TestWithParam<Spin> {};

TEST_P(TeamTest, EachOfTheFirstMembersRunsTheJobOnce) {
  auto team = make(4, GetParam());
  EXPECT_EQ(team->size(), 4);
  for (int count : {4, 0, 1, 3, 4}) {
    std::vector<int> runs(4, 0);
    team->start(count, [&](int i) {
      ++runs[static_cast<std::size_t>(i)];
      return Status();
    });
    EXPECT_TRUE(team->join().ok());
    for (int i = 0; i < 4; ++i) EXPECT_EQ(runs[static_cast<std::size_t>(i)], i < count ? 1 : 0);
  }
}

TEST_P(TeamTest, ManyShortJobs) {
  auto team = make(3, GetParam());
  // Members that poll take the cores from each other where there are few: fewer jobs then.
  const int jobs = GetParam().limit.count() > 100'000 ? 50 : 5000;
  std::int64_t sums[3] = {};  // plain: a missing release or acquire is a data race
  for (int job = 1; job <= jobs; ++job) {
    team->start(1 + job % 3, [&, job](int i) {
      sums[i] += job;
      return Status();
    });
    EXPECT_TRUE(team->join().ok());
  }
  std::int64_t expected[3] = {};
  for (int job = 1; job <= jobs; ++job) {
    for (int i = 0; i < 1 + job % 3; ++i) expected[i] += job;
  }
  EXPECT_THAT(sums, ::testing::ElementsAreArray(expected));
}

TEST_P(TeamTest, JoinWaitsForSlowMembers) {
  auto team = make(2, GetParam());
  std::atomic<bool> done{false};
  team->start(2, [&](int i) {
    if (i == 0) return Status();
    sleep_until(Clock::now() + std::chrono::milliseconds(30));
    done.store(true);
    return Status();
  });
  EXPECT_TRUE(team->join().ok());
  EXPECT_TRUE(done.load());
  EXPECT_TRUE(team->join().ok());
}

TEST_P(TeamTest, TheDestructorWaits) {
  std::atomic<int> done{0};
  {
    auto team = make(3, GetParam());
    team->start(3, [&](int) {
      sleep_until(Clock::now() + std::chrono::milliseconds(5));
      done.fetch_add(1);
      return Status();
    });
  }
  EXPECT_EQ(done.load(), 3);
}

TEST_P(TeamTest, NobodyIsATeamToo) {
  auto team = make(0, GetParam());
  team->start(0, [](int) { return Status(StatusCode::kInternal, "nobody was to run"); });
  EXPECT_TRUE(team->join().ok());
}

TEST_P(TeamTest, TheLowestMembersFailureIsReturnedOnce) {
  auto team = make(3, GetParam());
  team->start(
      3, [&](int i) { return i == 0 ? Status() : Status(StatusCode::kIo, std::to_string(i)); });
  EXPECT_EQ(team->join().message(), "1");
  team->start(1, [&](int) { return Status(); });
  EXPECT_TRUE(team->join().ok());
}

TEST_P(TeamTest, WhatAJobThrowsIsAFailure) {
  auto team = make(2, GetParam());
  team->start(2, [&](int i) -> Status {
    if (i == 1) throw std::bad_alloc();
    return {};
  });
  EXPECT_EQ(team->join().code(), StatusCode::kOutOfMemory);
}

/// The CPUs of each member, asked while it runs.
std::vector<std::vector<int>> cpus_of(Team& team) {
  std::vector<std::vector<int>> cpus(static_cast<std::size_t>(team.size()));
  team.start(team.size(), [&](int i) {
    cpus[static_cast<std::size_t>(i)] = allowed_cpus();
    return Status();
  });
  EXPECT_TRUE(team.join().ok());
  return cpus;
}

TEST_P(TeamTest, MembersKeepTheCpusOfTheirCreation) {
  const std::vector<int> all = allowed_cpus();
  if (all.size() < 2) GTEST_SKIP() << "one CPU leaves nothing to choose";
  // In a thread of its own, whose binding ends with it.
  std::thread([&] {
    // As many members as CPUs: none can be left to the caller. One member: one can, and is where
    // members poll.
    auto many = make(static_cast<int>(all.size()), GetParam());
    auto one = make(1, GetParam());
    // Where the member is after a first call, the caller is bound to, as by a host program.
    for (int taken : {cpus_of(*one).front().front(), all.front(), all.back()}) {
      ASSERT_TRUE(bind_this_thread({&taken, 1}).ok());
      std::vector<int> rest = all;
      if (GetParam().limit.count() > 0) std::erase(rest, taken);
      EXPECT_THAT(cpus_of(*many), ::testing::Each(all));
      EXPECT_EQ(cpus_of(*one).front(), rest);
      EXPECT_EQ(allowed_cpus(), std::vector<int>{taken});
    }
  }).join();
}

TEST_P(TeamTest, MembersOfABoundThreadStayWhereItWas) {
  const std::vector<int> all = allowed_cpus();
  if (all.size() < 2) GTEST_SKIP() << "one CPU leaves nothing to choose";
  std::thread([&] {
    const int first[] = {all.front()};
    ASSERT_TRUE(bind_this_thread(first).ok());
    auto team = make(1, GetParam());
    ASSERT_TRUE(bind_this_thread(all).ok());
    for (int round = 0; round < 20; ++round) {
      EXPECT_THAT(cpus_of(*team), ::testing::Each(std::vector<int>{all.front()}));
    }
  }).join();
}

TEST_P(TeamTest, OnlyMembersHavePreciseTimers) {
  std::thread([] {
    constexpr int kSlack = 123'456;
    ASSERT_EQ(prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(kSlack), 0UL, 0UL, 0UL), 0);
    auto team = make(2, GetParam());
    team->start(2, [](int) {
      EXPECT_EQ(prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL), 1);
      return Status();
    });
    EXPECT_TRUE(team->join().ok());
    std::atomic<std::uint32_t> word{0};
    park(word, 0, std::chrono::microseconds(1));
    sleep_until(Clock::now() + std::chrono::microseconds(1));
    EXPECT_EQ(prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL), kSlack);
  }).join();
}

INSTANTIATE_TEST_SUITE_P(Polling, TeamTest,
                         ::testing::Values(Spin{}, Spin{std::chrono::microseconds(50)},
                                           Spin{std::chrono::milliseconds(2)}),
                         [](const auto& param) {
                           return std::to_string(param.param.limit.count()) + "ns";
                         });

}  // namespace
}  // namespace tandem::platform
