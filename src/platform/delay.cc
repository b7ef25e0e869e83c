// SPDX-License-Identifier: Apache-2.0
//
// The knob behind protocol_step(). Delays are drawn from a counter and the seed, so that a run
// with few threads repeats itself; threads draw in the order in which they come.
#include "platform/delay.h"

#include <charconv>
#include <chrono>
#include <cstdlib>

#include <fmt/format.h>

#include "platform/park.h"

namespace tandem::platform {

namespace detail {

std::atomic<std::uint32_t> delay_max_us{0};

namespace {
std::atomic<std::uint64_t> draws{0};  // starts at the seed; relaxed, only uniqueness matters
}

void delay_here(const char* step, std::uint32_t max_us) {
  const auto salt = static_cast<std::uint64_t>(static_cast<unsigned char>(step[0]));
  const std::uint64_t random =
      random_bits(draws.fetch_add(1, std::memory_order_relaxed) + (salt << 56));
  // Half of the steps pass undelayed: a delay everywhere would keep the ranks in step.
  if ((random & 1) == 0) return;
  const auto delay = std::chrono::microseconds((random >> 1) % max_us);
  sleep_until(Clock::now() + delay);
}

}  // namespace detail

namespace {

bool parse(std::string_view text, auto& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

void set_delays(std::uint64_t seed, std::uint32_t max_us) {
  detail::draws.store(random_bits(seed), std::memory_order_relaxed);
  detail::delay_max_us.store(max_us, std::memory_order_relaxed);
}

Status set_delays(std::string_view text) {
  // One second: longer delays would turn waits into timeouts, which is another test.
  constexpr std::uint32_t kMostUs = 1'000'000;
  const std::size_t colon = text.find(':');
  std::uint64_t seed = 0;
  std::uint32_t max_us = 0;
  if (colon == std::string_view::npos || !parse(text.substr(0, colon), seed) ||
      !parse(text.substr(colon + 1), max_us) || max_us > kMostUs) {
    return {StatusCode::kInvalidArgument,
            fmt::format("delays are '{}', expected <seed>:<max_us> with max_us at most {}", text,
                        kMostUs)};
  }
  set_delays(seed, max_us);
  return {};
}

Status set_delays_from_environment() {
  static const Status status = [] {
    const char* text = std::getenv("TANDEM_TEST_DELAYS");
    if (text == nullptr || *text == '\0') return Status();
    Status set = set_delays(std::string_view(text));
    if (set.ok()) return set;
    return Status(set.code(), fmt::format("TANDEM_TEST_DELAYS: {}", set.message()));
  }();
  return status;
}

}  // namespace tandem::platform
