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

/// Collective. Tells what should not have been, and then also how the rank fared that was without
/// memory, `owner`, and where; returns how much was wrong on this rank.
int judge(int rank, int owner, const char* when, std::uint64_t number,
          const std::vector<Status>& outcomes, bool must_succeed) {
  int wrong = 0;
  for (const Status& s : outcomes) {
    const bool lied = s.code() == StatusCode::kInternal || s.code() == StatusCode::kTimeout;
    wrong += s.ok() || (!lied && !must_succeed) ? 0 : 1;
  }
  int anywhere = 0;
  MPI_Allreduce(&wrong, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (wrong == 0 && (anywhere == 0 || rank != owner)) return wrong;
  for (const Status& s : outcomes) {
    std::printf("rank %d, %s: %s\n", rank, when, s.ok() ? "ok" : s.message().c_str());
  }
  if (rank == owner && number > 0) {
    std::printf("rank %d, allocation %llu failed here:\n", rank,
                static_cast<unsigned long long>(number));
    std::fflush(stdout);
    write_stack_of_failure(STDOUT_FILENO);
  }
  return wrong;
}

int sweep_job(int rank, int ranks, Life& life) {
  const char* wanted = std::getenv("TANDEM_TEST_POINTS");
  const int points = wanted != nullptr && std::atoi(wanted) > 0 ? std::atoi(wanted) : 8;
  alarm(kMostSeconds);
  fail_allocation(0, Failing::once);
  int wrong = judge(rank, 0, "with memory", 0, live_once(life), true);
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
    wrong += judge(rank, point % ranks,
                   point / ranks % 2 == 0 ? "without memory once" : "without memory from here",
                   number, outcomes, false);
    alarm(kMostSeconds);
    MPI_Barrier(MPI_COMM_WORLD);
    wrong += judge(rank, point % ranks, "afterwards", 0, live_once(life), true);
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
