// SPDX-License-Identifier: Apache-2.0
//
// Team. Each word that somebody waits on holds both the news and whether the waiter is parked, so
// that one atomic exchange tells the sender whether a system call is needed, and no wake-up can
// fall between a check and a sleep. Start reading at serve().
#include "platform/team.h"

#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/guarded.h"

namespace tandem::platform {
namespace {

constexpr std::uint32_t kParked = std::uint32_t{1} << 31;

// A parked thread looks again this often even when nobody wakes it. Only a precaution: wake-ups
// do not get lost.
constexpr std::chrono::seconds kLookAgain{10};

// Reading the clock costs as much as a few pauses; do it once per this many.
constexpr int kPausesPerLook = 16;

/// What sched_setattr(2) reads. The kernel's own header cannot stand beside <sched.h>.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes), policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0, deadline = 0, period = 0;
};

/// Asks the scheduler for turns of 0.1 ms. Since Linux 6.12 a woken thread with a shorter turn runs
/// before one that is in the middle of a longer one; with equal turns (3 ms by default) it waits
/// for the end of that. Older kernels ignore it, and a refusal costs only time.
void take_short_turns() {
  if (sched_getscheduler(0) != SCHED_OTHER) return;  // another class was chosen by somebody
  SchedulingAttributes attributes;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  attributes.runtime = 100'000;
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/// Polls until done() or the limit; returns whether done.
bool poll(Spin spin, auto done) {
  if (done()) return true;
  if (spin.limit.count() <= 0) return false;
  const Clock::time_point end = Clock::now() + spin.limit;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      pause();
      if (done()) return true;
    }
  } while (Clock::now() < end);
  return false;
}

}  // namespace

Result<std::unique_ptr<Team>> Team::create(int size, std::string_view name, Spin spin, Pace pace) {
  std::unique_ptr<Team> team(new Team(size, spin, pace));
  team->threads_.reserve(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) {
    try {
      team->threads_.emplace_back([self = team.get(), i] { self->serve(i); });
    } catch (const std::system_error& refusal) {
      return Status(StatusCode::kOutOfMemory,
                    fmt::format("the system refused thread {} of {} for '{}': {}; ask for fewer "
                                "threads or raise the limit (`ulimit -u`, pids.max)",
                                i + 1, size, name, refusal.what()));
    }
    // They are those of the creating thread already; said once more, because a host program may
    // bind whatever thread it sees start. A refusal (the set shrank meanwhile) costs only time.
    (void)team->cpus_.bind(team->threads_.back().native_handle());
    const std::string short_name(name.substr(0, 15));  // the kernel's limit
    pthread_setname_np(team->threads_.back().native_handle(), short_name.c_str());
  }
  return team;
}

bool Team::in_child() const { return process_id() != process_; }

Team::~Team() {
  if (in_child()) {
    // Neither joined nor ended by the destructor of a vector: their handles mean nothing here.
    new std::vector<std::thread>(std::move(threads_));
    return;
  }
  (void)join();
  ending_ = true;
  for (std::size_t i = 0; i < threads_.size(); ++i) post(mailboxes_[i]);
  for (std::thread& thread : threads_) thread.join();
}

void Team::post(Mailbox& mailbox) {
  // Only start() and the destructor post, one at a time, and only the "parked" bit changes under
  // their feet. Release: pairs with the acquire load in serve().
  const std::uint32_t next = (mailbox.word.load(std::memory_order_relaxed) & ~1u) + 2;
  const std::uint32_t before = mailbox.word.exchange(next, std::memory_order_acq_rel);
  if ((before & 1u) != 0) unpark_all(mailbox.word);
}

/// Members that have a core of their own (they poll) leave the caller's to the caller. Linux puts
/// a woken thread beside the one that wakes it, even if another core is idle, and moves it a few
/// milliseconds later: two threads took 0.22 ms for what one does in 0.15 (32 × 1024 × 256, f16).
void Team::keep_off_this_core() {
  const int here = sched_getcpu();
  if (here < 0 || here == avoided_) return;
  avoided_ = here;
  CpuSet others = cpus_;
  others.erase(here);
  // Not where members would have to share a core to leave one free: the caller may well be bound
  // to a core that it shares with others, or the only one of ours.
  const CpuSet& wanted = others.count() >= size() ? others : cpus_;
  // A refusal costs only time.
  for (std::thread& thread : threads_) (void)wanted.bind(thread.native_handle());
}

void Team::start(int count, Job job) {
  (void)join();
  for (Status& outcome : outcomes_) outcome = {};
  if (count > 0 && pace_ == Pace::steady && spin_.limit.count() > 0) keep_off_this_core();
  job_ = std::move(job);
  // Relaxed: the members read it only after post().
  unfinished_.store(static_cast<std::uint32_t>(count), std::memory_order_relaxed);
  for (int i = 0; i < count; ++i) post(mailboxes_[static_cast<std::size_t>(i)]);
}

void Team::serve(int index) {
  sharpen_timers();
  if (pace_ == Pace::brief) take_short_turns();
  Mailbox& mailbox = mailboxes_[static_cast<std::size_t>(index)];
  for (std::uint32_t last = 0;; last += 2) {
    // Acquire: pairs with the release in post(), so that job_ and ending_ are seen.
    const auto posted = [&] {
      return mailbox.word.load(std::memory_order_acquire) >> 1 != last >> 1;
    };
    while (!poll(spin_, posted)) {
      std::uint32_t expected = last;
      mailbox.word.compare_exchange_strong(expected, last | 1u, std::memory_order_acq_rel);
      while (!posted()) park(mailbox.word, last | 1u, kLookAgain);
    }
    if (ending_) return;
    outcomes_[static_cast<std::size_t>(index)] = base::guarded([&] { return job_(index); });
    // Release: what the job wrote is seen after join(), whose load acquires.
    const std::uint32_t before = unfinished_.fetch_sub(1, std::memory_order_acq_rel);
    if (before == (kParked | 1u)) unpark_all(unfinished_);
  }
}

Status Team::join() {
  if (in_child()) {
    return {
        StatusCode::kUnsupported,
        "a process that was forked from the one that made this operator cannot use it; make a new "
        "world and operator there"};
  }
  // Acquire: pairs with the release of each member's fetch_sub in serve().
  const auto finished = [&] {
    return (unfinished_.load(std::memory_order_acquire) & ~kParked) == 0;
  };
  while (!poll(spin_, finished)) {
    const std::uint32_t marked = unfinished_.fetch_or(kParked, std::memory_order_acq_rel) | kParked;
    if (marked != kParked) park(unfinished_, marked, kLookAgain);
  }
  for (const Status& outcome : outcomes_) {
    if (!outcome.ok()) return outcome;
  }
  return {};
}

}  // namespace tandem::platform
