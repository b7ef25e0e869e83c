// SPDX-License-Identifier: Apache-2.0
//
// Teams: who runs what, that join() waits, and that neither wake-ups nor results get lost.
#include "platform/team.h"

#include <string>

#include <gmock/gmock.h>

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

INSTANTIATE_TEST_SUITE_P(Polling, TeamTest,
                         ::testing::Values(Spin{}, Spin{std::chrono::microseconds(50)},
                                           Spin{std::chrono::milliseconds(2)}),
                         [](const auto& param) {
                           return std::to_string(param.param.limit.count()) + "ns";
                         });

}  // namespace
}  // namespace tandem::platform
