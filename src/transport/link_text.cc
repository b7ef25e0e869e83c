// SPDX-License-Identifier: Apache-2.0
//
// Links as text, as the command line and reports spell them: "1Gbit/s,50us,jitter=200us,seed=7".
// Start reading at parse().
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/guarded.h"
#include "tandem/transport.h"

namespace tandem {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kBandwidths[] = {
    {"bit/s", 1.0 / 8},   {"kbit/s", 1e3 / 8}, {"Mbit/s", 1e6 / 8}, {"Gbit/s", 1e9 / 8},
    {"Tbit/s", 1e12 / 8}, {"B/s", 1},          {"kB/s", 1e3},       {"MB/s", 1e6},
    {"GB/s", 1e9},        {"TB/s", 1e12},
};
constexpr Unit kTimes[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

// Slower than one byte per second or longer than an hour is a slip of the pen, and keeps sums of
// nanoseconds far from overflow.
constexpr double kLeastBandwidth = 1;
constexpr double kMostBandwidth = 1e15;
constexpr double kMostNanoseconds = 3600e9;

/// A number of at least 0 followed by one of the units.
template <std::size_t count>
std::optional<double> quantity(std::string_view text, const Unit (&units)[count]) {
  double value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || !std::isfinite(value) || value < 0) return std::nullopt;
  const std::string_view rest(end, static_cast<std::size_t>(last - end));
  for (const Unit& unit : units) {
    if (rest == unit.name) return value * unit.factor;
  }
  return std::nullopt;
}

Status wrong(std::string_view text, std::string_view part, std::string_view expected) {
  return {StatusCode::kInvalidArgument,
          fmt::format("link '{}': '{}' is not {}; write for example 1Gbit/s,50us or "
                      "800MB/s,1ms,jitter=200us,seed=7",
                      text, part, expected)};
}

std::optional<std::chrono::nanoseconds> time_of(std::string_view text) {
  const std::optional<double> value = quantity(text, kTimes);
  if (!value || *value > kMostNanoseconds) return std::nullopt;
  return std::chrono::nanoseconds(std::llround(*value));
}

std::string spell(double value, std::string_view unit) { return fmt::format("{}{}", value, unit); }

std::string spell_time(std::chrono::nanoseconds time) {
  const auto ns = time.count();
  if (ns != 0 && ns % 1'000'000'000 == 0) return fmt::format("{}s", ns / 1'000'000'000);
  if (ns != 0 && ns % 1'000'000 == 0) return fmt::format("{}ms", ns / 1'000'000);
  if (ns % 1'000 == 0) return fmt::format("{}us", ns / 1'000);
  return fmt::format("{}ns", ns);
}

std::string spell_bandwidth(double bytes_per_second) {
  const double bits = bytes_per_second * 8;
  if (bits >= 1e9) return spell(bits / 1e9, "Gbit/s");
  if (bits >= 1e6) return spell(bits / 1e6, "Mbit/s");
  if (bits >= 1e3) return spell(bits / 1e3, "kbit/s");
  return spell(bits, "bit/s");
}

Result<Link> parse(std::string_view text) {
  Link link;
  std::string_view rest = text;
  for (int index = 0; index == 0 || !rest.empty(); ++index) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (index == 0) {
      const std::optional<double> bandwidth = quantity(part, kBandwidths);
      if (!bandwidth || *bandwidth < kLeastBandwidth || *bandwidth > kMostBandwidth) {
        return wrong(text, part,
                     "a bandwidth from 1 B/s to 1000 TB/s (bit/s or B/s with k, M, G or T)");
      }
      link.bytes_per_second = *bandwidth;
    } else if (part.starts_with("jitter=")) {
      const auto jitter = time_of(part.substr(7));
      if (!jitter) return wrong(text, part, "a jitter of at most an hour (ns, us, ms or s)");
      link.jitter = *jitter;
    } else if (part.starts_with("seed=")) {
      const char* last = part.data() + part.size();
      const auto [end, error] = std::from_chars(part.data() + 5, last, link.seed);
      if (error != std::errc() || end != last) return wrong(text, part, "a seed (0 to 2^64 - 1)");
    } else if (const auto latency = time_of(part); index == 1 && latency) {
      link.latency = *latency;
    } else {
      return wrong(text, part, "a latency of at most an hour (ns, us, ms or s), jitter= or seed=");
    }
  }
  return link;
}

}  // namespace

std::string_view name(TransportKind kind) {
  switch (kind) {
    case TransportKind::shm:
      return "shm";
    case TransportKind::sim:
      return "sim";
    case TransportKind::mpi:
      return "mpi";
  }
  return "unknown";
}

Result<Link> parse_link(std::string_view text) {
  return base::guarded([&] { return parse(text); });
}

std::string to_string(const Link& link) {
  return base::guarded_or("out of memory", [&] {
    std::string text = spell_bandwidth(link.bytes_per_second) + "," + spell_time(link.latency);
    if (link.jitter.count() != 0) text += ",jitter=" + spell_time(link.jitter);
    if (link.seed != 0) text += fmt::format(",seed={}", link.seed);
    return text;
  });
}

}  // namespace tandem
