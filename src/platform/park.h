// SPDX-License-Identifier: Apache-2.0
//
// The two ways to wait for a 32-bit word to change: poll for a moment, then park in the kernel
// (futex) until somebody unparks. Works across processes that share the word's memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/internal_api.h"

namespace tandem::platform {

using Clock = std::chrono::steady_clock;

/// How long a waiter polls before it parks. Zero where ranks and threads outnumber cores: polling
/// would then take the core from the very thread that is awaited.
struct Spin {
  std::chrono::nanoseconds limit{0};
};

/// Sleeps until *word != expected, unpark_all(word), or the time is up; may also return spuriously.
TANDEM_INTERNAL_API void park(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                              std::chrono::nanoseconds timeout);
TANDEM_INTERNAL_API void unpark_all(std::atomic<std::uint32_t>& word);

/// Tells the core that this is a polling loop.
void pause();

/// CPU time that all threads of this process have used.
[[nodiscard]] Clock::duration process_cpu_time();

/// Makes the calling thread's timers precise for the rest of its life. By default the kernel lets
/// one be 50 µs late to batch wake-ups: as long as the latency of the links that the sim transport
/// models. For threads of ours only: the caller's slack is the caller's, and its sleeps are
/// deadlines, which may be that late.
void sharpen_timers();

/// Sleeps until the moment, without using the CPU, to within the kernel's timer precision.
TANDEM_INTERNAL_API void sleep_until(Clock::time_point moment);

}  // namespace tandem::platform
