// SPDX-License-Identifier: Apache-2.0
//
// FaultRank. The victim's death is a timer of the kernel's that sends SIGKILL: it comes at its
// moment wherever the program is, and a phase of some microseconds can be hit.
#include "tests/fault/fault_rank.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "tests/fault/life.h"

namespace tandem::testing_fault {
namespace {

long long now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// One write, so that the lines of several ranks in one pipe do not mix.
void say(int rank, std::string_view what, long long time, std::string_view more = {}) {
  const auto text = fmt::format("{} {} {} {}{}\n", rank, getpid(), what, time, more);
  (void)!write(STDOUT_FILENO, text.data(), text.size());
}

}  // namespace

FaultRank::FaultRank(int rank, char** arguments)
    : rank_(rank),
      way_(arguments[0]),
      scale_(std::atoi(arguments[1])),
      calls_(std::atoi(arguments[2])),
      ends_(std::atoi(arguments[3])),
      victim_(std::atoi(arguments[4])),
      phase_(arguments[5]),
      nanoseconds_(std::atoll(arguments[6])) {}

void FaultRank::arm() const {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer{};
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) std::abort();
  const long long death = now() + nanoseconds_;
  say(rank_, "death", death);
  itimerspec at{};
  at.it_value.tv_sec = static_cast<time_t>(death / 1'000'000'000);
  at.it_value.tv_nsec = static_cast<long>(death % 1'000'000'000);
  if (timer_settime(timer, TIMER_ABSTIME, &at, nullptr) != 0) std::abort();
}

void FaultRank::enter(std::string_view phase) const {
  say(rank_, phase, now());
  if (rank_ == victim_ && phase == phase_) arm();
}

int FaultRank::live(const std::function<Result<World>()>& join) const {
  const auto way = std::find_if(ways().begin(), ways().end(),
                                [&](const Way& candidate) { return candidate.name == way_; });
  if (way == ways().end()) return 2;

  enter("joining");
  auto world = join();
  Status status = world.status();
  std::optional<Life> life;
  if (status.ok()) {
    life.emplace(*way, rank_, world->size(), scale_);
    enter("creating");
    status = life->pack();
    if (status.ok()) status = life->create(*world);
  }
  if (status.ok()) enter("calling");
  const bool ends = all_end() || ends_ == rank_;
  for (int done = 0; status.ok() && !(ends && done == calls_); ++done) status = life->call();

  std::string code(name(status.code()));
  std::replace(code.begin(), code.end(), ' ', '_');
  const int lost = status.wait() ? status.wait()->rank : -1;
  say(rank_, "end", now(), fmt::format(" {} {} {}", code, lost, status.message()));
  enter("destroying");
  life.reset();
  enter("leaving");
  world = Status(StatusCode::kInternal, "");  // ends it
  enter("left");
  return status.ok() ? 0 : status.code() == StatusCode::kPeerLost ? 5 : 6;
}

}  // namespace tandem::testing_fault
