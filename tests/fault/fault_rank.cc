// SPDX-License-Identifier: Apache-2.0
//
// live(), for fault_rank_process.cc and fault_rank_mpi.cc.
#include "tests/fault/fault_rank.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "tests/fault/life.h"

namespace tandem::testing_fault {
namespace {

/// One write, so that the lines of several ranks in one pipe do not mix.
void say(int rank, std::string_view phase, std::string_view more = {}) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto text = fmt::format("{} {} {} {}{}\n", rank, getpid(), phase,
                                std::chrono::nanoseconds(now).count(), more);
  (void)!write(STDOUT_FILENO, text.data(), text.size());
}

}  // namespace

void enter(int rank, const char* phase) { say(rank, phase); }

int live(int argc, char** argv, int rank, const std::function<Result<World>()>& join) {
  if (argc != 5) return 2;
  const std::string_view wanted = argv[1];
  const auto way =
      std::find_if(ways().begin(), ways().end(), [&](const Way& w) { return w.name == wanted; });
  if (way == ways().end()) return 2;
  const int calls = std::atoi(argv[3]), who_ends = std::atoi(argv[4]);

  enter(rank, "joining");
  auto world = join();
  Status status = world.status();
  std::optional<Life> life;
  if (status.ok()) {
    // Not of interest: what a program does before it makes its operator.
    life.emplace(*way, rank, world->size(), std::atoi(argv[2]));
    enter(rank, "creating");
    status = life->pack();
    if (status.ok()) status = life->create(*world);
  }
  if (status.ok()) enter(rank, "calling");
  const bool ends = who_ends < 0 || who_ends == rank;
  for (int done = 0; status.ok() && !(ends && done == calls); ++done) status = life->call();
  const int lost = status.wait() ? status.wait()->rank : -1;
  std::string code(name(status.code()));
  std::replace(code.begin(), code.end(), ' ', '_');
  say(rank, "end", fmt::format(" {} {} {}", code, lost, status.message()));
  enter(rank, "destroying");
  life.reset();
  enter(rank, "leaving");
  world = Status(StatusCode::kInternal, "");
  enter(rank, "left");
  return status.ok() ? 0 : status.code() == StatusCode::kPeerLost ? 5 : 6;
}

}  // namespace tandem::testing_fault
