// SPDX-License-Identifier: Apache-2.0
//
// allocation_test.cc over MPI: on one rank an allocation fails, alone or with all later ones, from
// the making of the world to its end; all ranks must be told something in time, and the next world,
// with memory, must work. All in one job, since an MPI process cannot be forked: a crash ends the
// test. TANDEM_TEST_POINTS allocations of each rank (default 8), spread evenly.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <unistd.h>

#include "tandem/mpi.h"
#include "tests/fault/broken_run.h"
#include "tests/fault/failing_new.h"
#include "tests/fault/life.h"

namespace tandem::testing_fault {
namespace {

constexpr std::chrono::seconds kTimeout{10};
constexpr unsigned kMostSeconds = 60;  // of one life

std::vector<Status> live_once(Life& life) {
  std::vector<Status> outcomes;
  std::unique_ptr<World> world;
  add(outcomes, [&] {
    auto made = mpi::make_world(MPI_COMM_WORLD, {.timeout = kTimeout});
    const Spared own;
    if (made.ok()) world = std::make_unique<World>(std::move(*made));
    return made.status();
  });
  if (world) add(outcomes, [&] { return life.live(*world); });
  world.reset();
  return outcomes;
}

/// Tells what should not have been; returns how much.
int judge(int rank, const char* when, std::uint64_t number, const std::vector<Status>& outcomes,
          bool must_succeed) {
  int wrong = 0;
  for (const Status& s : outcomes) {
    const bool lied = s.code() == StatusCode::kInternal || s.code() == StatusCode::kTimeout;
    if (s.ok() || (!lied && !must_succeed)) continue;
    std::printf("rank %d, %s (allocation %llu): %s\n", rank, when,
                static_cast<unsigned long long>(number), s.message().c_str());
    ++wrong;
  }
  return wrong;
}

int sweep_job(int rank, int ranks, Life& life) {
  const char* wanted = std::getenv("TANDEM_TEST_POINTS");
  const int points = wanted != nullptr && std::atoi(wanted) > 0 ? std::atoi(wanted) : 8;
  alarm(kMostSeconds);
  fail_allocation(0, Failing::once);
  int wrong = judge(rank, "with memory", 0, live_once(life), true);
  const std::uint64_t allocations = stop_failing();
  for (int point = 0; point < points * ranks; ++point) {
    const bool own = point % ranks == rank;
    const auto number = own ? 1 + allocations * static_cast<std::uint64_t>(point / ranks) /
                                      static_cast<std::uint64_t>(points)
                            : 0;
    alarm(kMostSeconds);
    MPI_Barrier(MPI_COMM_WORLD);
    fail_allocation(number, point / ranks % 2 == 0 ? Failing::once : Failing::from_here);
    const auto outcomes = live_once(life);
    stop_failing();
    wrong += judge(rank, "without memory", number, outcomes, false);
    alarm(kMostSeconds);
    MPI_Barrier(MPI_COMM_WORLD);
    wrong += judge(rank, "afterwards", number, live_once(life), true);
  }
  return wrong;
}

}  // namespace
}  // namespace tandem::testing_fault

int main(int argc, char** argv) {
  using namespace tandem::testing_fault;
  int granted = 0, rank = 0, ranks = 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int wrong = 0;
  for (const Way& way : ways()) {
    if (!way.network) continue;
    Life life(way, rank, ranks, 1);
    wrong += sweep_job(rank, ranks, life);
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
