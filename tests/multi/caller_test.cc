// SPDX-License-Identifier: Apache-2.0
//
// What an operator leaves alone: its caller's thread. CPUs, timer slack, scheduling class and
// rounding mode are after every call what they were before; and the threads of an
// operator stay on the CPUs of its creation when the caller is bound to one of them later.
#include <cfenv>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <sched.h>
#include <sys/prctl.h>

#include "platform/topology.h"
#include "tests/multi/problem.h"
#include "tests/multi/ranks.h"

namespace tandem::testing_ranks {
namespace {

/// Everything that belongs to the calling thread.
struct Manners {
  std::vector<int> cpus = platform::allowed_cpus();
  int slack = prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);
  int policy = sched_getscheduler(0);
  int rounding = std::fegetround();
  bool operator==(const Manners&) const = default;
};

/// Unlike what a thread has by itself, so that a change shows.
void take_manners_of_ones_own() {
  ASSERT_EQ(prctl(PR_SET_TIMERSLACK, 1'234'567UL, 0UL, 0UL, 0UL), 0);
  const sched_param none{};
  ASSERT_EQ(sched_setscheduler(0, SCHED_BATCH, &none), 0);
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
}

struct Way {
  RanksAs as;
  TransportSpec transport;
  Transfer transfer;
};

class CallerTest : public ::testing::TestWithParam<Way> {};

TEST_P(CallerTest, ItsThreadIsLeftAsItWas) {
  const Way way = GetParam();
  // Rows enough that lanes carry them, not the caller.
  Problem problem({.rows = {200, 150}, .k = 300, .n = 48});
  run_ranks(way.as, 2, [&](const World& world) {
    take_manners_of_ones_own();
    const Manners before;
    auto weights = PackedWeights::pack(problem.b(), {.threads = 2});
    ASSERT_TRUE(weights.ok());
    EXPECT_EQ(before, Manners());
    {
      auto op = AllGatherGemm::create(world, *weights,
                                      {.max_rows = 200,
                                       .transfer = way.transfer,
                                       .transport = transport_here(way.transport),
                                       .compute_threads = 2,
                                       .comm_threads = 2});
      ASSERT_TRUE(op.ok()) << op.status().message();
      EXPECT_EQ(before, Manners());
      for (int call = 0; call < 3; ++call) {
        Buffer c(DType::f32, problem.shape().m(), problem.shape().n);
        const Status status =
            op->run({.a = problem.a(world.rank()), .c = c.view(), .rows = problem.shape().rows});
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(before, Manners());
        problem.expect_equal(c.view());
      }
    }
    EXPECT_TRUE(world.barrier().ok());
    EXPECT_EQ(before, Manners());
  });
}

constexpr Link kLink{.bytes_per_second = 1e9, .latency = std::chrono::microseconds(50)};

INSTANTIATE_TEST_SUITE_P(
    Transports, CallerTest,
    ::testing::Values(Way{RanksAs::threads, {}, Transfer::pull},
                      Way{RanksAs::processes, {}, Transfer::push},
                      Way{RanksAs::threads, {TransportKind::sim, kLink}, Transfer::pull},
                      Way{RanksAs::processes, {TransportKind::sim, kLink}, Transfer::push}),
    [](const auto& param) {
      return std::string(param.param.as == RanksAs::threads ? "threads" : "processes") + "_" +
             std::string(name(param.param.transport.kind));
    });

/// The CPUs that this process's threads of that name may use.
std::vector<std::vector<int>> cpus_of_threads(const std::string& wanted) {
  std::vector<std::vector<int>> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string thread_name;
    std::getline(std::ifstream(entry.path() / "comm") >> std::ws, thread_name);
    if (thread_name != wanted) continue;
    cpu_set_t set;
    if (sched_getaffinity(std::stoi(entry.path().filename()), sizeof set, &set) != 0) continue;
    all.emplace_back();
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) all.back().push_back(cpu);
    }
  }
  return all;
}

TEST(Caller, BoundLaterDoesNotDrawItsThreadsAlong) {
  const std::vector<int> all = platform::allowed_cpus();
  if (all.size() < 2 || all.back() >= CPU_SETSIZE) GTEST_SKIP() << "needs two CPUs";
  // As a program does whose OpenMP binds its threads: one call unbound, then bound.
  Problem problem({.rows = {64}, .k = 300, .n = 480});
  run_ranks(RanksAs::processes, 1, [&](const World& world) {
    const auto threads = static_cast<int>(all.size());
    auto weights = problem.weights();
    ASSERT_TRUE(weights.ok());
    auto op = AllGatherGemm::create(world, *weights, {.max_rows = 64, .compute_threads = threads});
    ASSERT_TRUE(op.ok()) << op.status().message();
    const auto call = [&] {
      Buffer c(DType::f32, 64, 480);
      ASSERT_TRUE(op->run({.a = problem.a(), .c = c.view()}).ok());
      problem.expect_equal(c.view());
      ASSERT_EQ(cpus_of_threads("tandem-compute").size(), all.size() - 1);
    };
    call();
    // Bound to where a worker is by now.
    for (int taken : {cpus_of_threads("tandem-compute").front().front(), all.front(), all.back()}) {
      ASSERT_TRUE(platform::bind_this_thread({&taken, 1}).ok());
      call();
      std::vector<int> rest = all;
      std::erase(rest, taken);
      // As many workers as there are other CPUs. Where they poll (no quota) they leave this one to
      // the caller.
      EXPECT_THAT(cpus_of_threads("tandem-compute"), ::testing::Each(::testing::AnyOf(rest, all)));
    }
  });
}

}  // namespace
}  // namespace tandem::testing_ranks
