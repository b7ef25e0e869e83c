// SPDX-License-Identifier: Apache-2.0
//
// Delays at named steps of the protocol, for tests: symm/, transport/ and stream/ call
// protocol_step() wherever a thread could be held up between two steps that others observe.
// TANDEM_TEST_DELAYS=<seed>:<max_us> makes every such step sleep, sometimes, for a pseudo-random
// time below max_us. Unset, a step costs one relaxed load.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "tandem/status.h"

namespace tandem::platform {

namespace detail {
/// Longest delay in microseconds, 0 = off. Relaxed everywhere: it orders nothing, it is a knob.
extern std::atomic<std::uint32_t> delay_max_us;
void delay_here(const char* step, std::uint32_t max_us);
}  // namespace detail

/// A point at which tests may hold this thread up. `step` names it, for example "put-notify".
inline void protocol_step(const char* step) {
  const std::uint32_t max_us = detail::delay_max_us.load(std::memory_order_relaxed);
  if (max_us != 0) [[unlikely]] {
    detail::delay_here(step, max_us);
  }
}

/// splitmix64's output function (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014): 64 well-mixed bits for any input. Delays and simulated jitter draw from it.
[[nodiscard]] constexpr std::uint64_t random_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Switches the delays on for this process, or off with max_us = 0.
void set_delays(std::uint64_t seed, std::uint32_t max_us);

/// Parses "<seed>:<max_us>" and switches the delays on. Errors: kInvalidArgument.
Status set_delays(std::string_view text);

/// Does what TANDEM_TEST_DELAYS asks for, once per process; every world calls it as it is made.
/// Errors: kInvalidArgument, naming the variable and its value.
Status set_delays_from_environment();

}  // namespace tandem::platform
