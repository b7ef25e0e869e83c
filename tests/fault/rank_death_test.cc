// SPDX-License-Identifier: Apache-2.0
//
// The death of a rank while others wait for it: they learn within a slice of the wait, by name,
// whatever kills the rank, and nothing remains.
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/memory.h"
#include "tests/symm/ranks.h"

namespace tandem::symm {
namespace {

using platform::Clock;
using std::chrono::milliseconds;
using testing::far;
using ::testing::HasSubstr;
using testing::is_rank_process;
using testing::launch_current_test;

// A rank is missed within one slice of 50 ms; slow machines get a hundred times that. Far below
// the timeout of the wait in any case.
constexpr milliseconds kNoticed{5000};

const tandem::World& joined() {
  static auto world = tandem::World::from_environment();
  EXPECT_TRUE(world.ok()) << world.status().message();
  return *world;
}

std::set<std::string> shared_memory_names() {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

/// The others' side of rank 1's death: lost in `wait`, noticed in time.
void expect_loss_of_rank_1(const Status& status, Clock::time_point start) {
  EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.message();
  ASSERT_TRUE(status.wait().has_value());
  EXPECT_EQ(status.wait()->rank, 1);
  EXPECT_THAT(status.message(), HasSubstr("rank 1 is lost (its process ended)"));
  EXPECT_LT(Clock::now() - start, kNoticed);
}

TEST(RankDeath, IsNoticedByThoseWhoWaitOnAWindow) {
  if (!is_rank_process()) {
    const auto names = shared_memory_names();
    const LaunchReport report = launch_current_test(3);
    EXPECT_EQ(report.exit_code, 128 + SIGKILL);
    EXPECT_EQ(report.summary, "rank 1 was killed by signal 9 (SIGKILL)\n");
    EXPECT_EQ(shared_memory_names(), names);
    return;
  }
  World& world = *joined().impl();
  auto window = world.create_window({.bytes = 1 << 20, .counters = 1});
  ASSERT_TRUE(window.ok());
  EXPECT_TRUE(world.alive(1));
  ASSERT_TRUE(world.barrier().ok());
  if (world.rank() == 1) {
    platform::sleep_until(Clock::now() + milliseconds(100));
    kill(getpid(), SIGKILL);
  }
  const Status status = (*window)->wait_until(0, 1, {.rank = 1, .call = 9, .chunk = 4}, far());
  expect_loss_of_rank_1(status, Clock::now());
  EXPECT_THAT(status.message(), HasSubstr("call 9, chunk 4, expected counter 1, seen 0"));
  EXPECT_FALSE(world.alive(1));
  EXPECT_EQ((*window)->failure().code(), StatusCode::kPeerLost);
}

TEST(RankDeath, IsNoticedInABarrier) {
  if (!is_rank_process()) {
    EXPECT_EQ(launch_current_test(3).exit_code, 128 + SIGSEGV);
    return;
  }
  ASSERT_TRUE(joined().barrier().ok());
  if (joined().rank() == 1) {
    signal(SIGSEGV, SIG_DFL);
    kill(getpid(), SIGSEGV);
  }
  const auto start = Clock::now();
  expect_loss_of_rank_1(joined().barrier(), start);
}

TEST(RankDeath, MattersOnlyToThoseWhoNeedTheRank) {
  if (!is_rank_process()) {
    EXPECT_EQ(launch_current_test(3).exit_code, 128 + SIGKILL);
    return;
  }
  World& world = *joined().impl();
  auto window = world.create_window({.bytes = 0, .counters = 1});
  ASSERT_TRUE(window.ok());
  if (world.rank() == 1) kill(getpid(), SIGKILL);
  while (world.alive(1)) platform::sleep_until(Clock::now() + milliseconds(1));
  const int other = 2 - world.rank();
  for (std::uint32_t n = 1; n <= 100; ++n) {
    (*window)->notify(other, 0);
    const Status status = (*window)->wait_until(0, n, {.rank = other, .call = n}, far());
    ASSERT_TRUE(status.ok()) << status.message();
  }
  // What the dead rank cannot drop is given back by the last of the others.
}

TEST(RankDeath, IsNoticedWithoutALauncherThatTells) {
  auto meeting = make_rendezvous(2);
  ASSERT_TRUE(meeting.ok());
  const pid_t child = fork();
  if (child == 0) {
    auto world = join_world(1, 2, *meeting, milliseconds(20000));
    if (world.ok()) kill(getpid(), SIGKILL);  // at once: it stays a zombie until the test ends
    _exit(1);
  }
  auto world = join_world(0, 2, *meeting, milliseconds(20000));
  ASSERT_TRUE(world.ok()) << world.status().message();
  const auto start = Clock::now();
  expect_loss_of_rank_1((*world)->barrier(), start);
  int end = 0;
  ASSERT_EQ(waitpid(child, &end, 0), child);
  EXPECT_TRUE(WIFSIGNALED(end));
  close(*meeting);
}

TEST(RankDeath, IsNoticedThoughAChildOfTheRankLivesOn) {
  // Nobody tells: the ranks are forked here, not launched.
  auto meeting = make_rendezvous(2);
  ASSERT_TRUE(meeting.ok());
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t rank = fork();
  if (rank == 0) {
    auto world = join_world(1, 2, *meeting, milliseconds(60000));
    if (!world.ok()) _exit(1);
    const pid_t child = fork();
    if (child == 0) {
      const pid_t self = getpid();
      (void)!write(told[1], &self, sizeof self);  // it runs: it has closed what it must
      ::pause();
      _exit(0);
    }
    ::pause();
    _exit(0);
  }
  auto world = join_world(0, 2, *meeting, milliseconds(60000));
  ASSERT_TRUE(world.ok()) << world.status().message();
  pid_t child = 0;
  ASSERT_EQ(read(told[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  EXPECT_TRUE((*world)->alive(1));
  kill(rank, SIGKILL);
  ASSERT_EQ(waitpid(rank, nullptr, 0), rank);
  const auto start = Clock::now();
  expect_loss_of_rank_1((*world)->barrier(), start);
  kill(child, SIGKILL);
  close(*meeting);
  close(told[0]);
  close(told[1]);
}

TEST(RankDeath, InTheMiddleOfStartingIsNoticed) {
  if (!is_rank_process()) {
    const LaunchReport report = launch_current_test(2);
    EXPECT_EQ(report.exit_code, 9);
    EXPECT_EQ(report.summary, "rank 1 exited with code 9\n");
    return;
  }
  if (std::string(std::getenv("TANDEM_RANK")) == "1") _exit(9);  // before it joins
  const auto start = Clock::now();
  auto world = tandem::World::from_environment();
  ASSERT_FALSE(world.ok());
  EXPECT_EQ(world.status().code(), StatusCode::kPeerLost) << world.status().message();
  EXPECT_EQ(world.status().wait()->rank, 1);
  EXPECT_LT(Clock::now() - start, kNoticed);
}

TEST(RankDeath, AStoppedRankIsATimeoutNotALoss) {
  if (!is_rank_process()) {
    EXPECT_EQ(launch_current_test(2).exit_code, 0);
    return;
  }
  World& world = *joined().impl();
  auto window = world.create_window({.bytes = 0, .counters = 1});
  ASSERT_TRUE(window.ok());
  if (world.rank() == 1) {
    platform::sleep_until(Clock::now() + milliseconds(500));
    return;
  }
  const Status status = (*window)->wait_until(0, 1, {.rank = 1, .call = 1},
                                              platform::Deadline::after(milliseconds(200)));
  EXPECT_EQ(status.code(), StatusCode::kTimeout) << status.message();
}

TEST(RankDeath, AForkedChildDoesNotSpeakForItsRank) {
  if (!is_rank_process()) {
    EXPECT_EQ(launch_current_test(2).exit_code, 0);
    return;
  }
  auto world = std::make_unique<tandem::World>(joined());
  auto window = world->impl()->create_window({.bytes = 64, .counters = 1});
  ASSERT_TRUE(window.ok());
  if (const pid_t child = fork(); child == 0) {
    window->reset();
    _exit(0);
  } else {
    int end = 0;
    ASSERT_EQ(waitpid(child, &end, 0), child);
  }
  (*window)->notify(1 - world->rank(), 0);
  EXPECT_TRUE((*window)->wait_until(0, 1, {.rank = 1 - world->rank()}, far()).ok());
  EXPECT_TRUE(world->barrier().ok());
}

}  // namespace
}  // namespace tandem::symm
