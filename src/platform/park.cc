// SPDX-License-Identifier: Apache-2.0
//
// Futexes and timed sleep. The futexes are of the shared kind: the kernel finds the waiters by
// the file and offset behind the word, so that ranks may map it at different addresses.
#include "platform/park.h"

#include <algorithm>
#include <cerrno>
#include <climits>

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace tandem::platform {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
              std::atomic<std::uint32_t>::is_always_lock_free);

timespec to_timespec(std::chrono::nanoseconds time) {
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {.tv_sec = static_cast<time_t>(whole.count()),
          .tv_nsec = static_cast<long>((time - whole).count())};
}

}  // namespace

void park(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
          std::chrono::nanoseconds timeout) {
  if (timeout.count() <= 0) return;
  const timespec relative = to_timespec(timeout);
  // Every outcome (woken, changed, time up, signal) means the same to the caller: look again.
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &relative, nullptr, 0);
}

void unpark_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  // `isb` stalls for about as long as x86's pause; `yield` does nothing on most cores.
  __asm__ __volatile__("isb" ::: "memory");
#endif
}

Clock::duration process_cpu_time() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

void sharpen_timers() {
  // A refusal costs only precision.
  (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

void sleep_until(Clock::time_point moment) {
  // libstdc++ and libc++ both read steady_clock from CLOCK_MONOTONIC.
  const timespec absolute =
      to_timespec(std::max(moment.time_since_epoch(), Clock::duration::zero()));
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &absolute, nullptr) == EINTR) {
  }
}

}  // namespace tandem::platform
