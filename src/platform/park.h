// SPDX-License-Identifier: Apache-2.0
//
// The two ways to wait for a 32-bit word to change: poll for a moment, then park in the kernel
// (futex) until somebody unparks. Works across processes that share the word's memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tandem::platform {

using Clock = std::chrono::steady_clock;

/// How long a waiter polls before it parks. Zero where ranks and threads outnumber cores: polling
/// would then take the core from the very thread that is awaited.
struct Spin {
  std::chrono::nanoseconds limit{0};
};

/// Sleeps until *word != expected, unpark_all(word), or the time is up; may also return spuriously.
void park(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
          std::chrono::nanoseconds timeout);
void unpark_all(std::atomic<std::uint32_t>& word);

/// Tells the core that this is a polling loop.
void pause();

/// CPU time that all threads of this process have used.
[[nodiscard]] Clock::duration process_cpu_time();

/// Sleeps until the moment, without using the CPU, to within the kernel's timer precision.
void sleep_until(Clock::time_point moment);

}  // namespace tandem::platform
