// SPDX-License-Identifier: Apache-2.0
//
// Reading of environment variables. The library never changes the environment, so getenv() is
// safe as long as the program does not change it either while worlds are made.
#include "platform/environment.h"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

namespace tandem::platform {

std::optional<std::string> env_text(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::string(text);
}

Result<std::optional<std::int64_t>> env_integer(const char* name, std::int64_t min,
                                                std::int64_t max) {
  const std::optional<std::string> text = env_text(name);
  if (!text) return std::optional<std::int64_t>();
  std::int64_t value = 0;
  const char* last = text->data() + text->size();
  const auto [end, error] = std::from_chars(text->data(), last, value);
  if (error != std::errc() || end != last || value < min || value > max) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("environment variable {} is '{}', expected an integer in {}..{}; "
                              "correct it or unset it",
                              name, *text, min, max));
  }
  return std::optional<std::int64_t>(value);
}

Result<std::chrono::milliseconds> env_timeout(std::chrono::milliseconds otherwise) {
  // All that WorldOptions takes: long waits are Deadline's affair.
  const auto given = env_integer("TANDEM_TIMEOUT_MS", 1, std::chrono::milliseconds::max().count());
  if (!given.ok()) return given.status();
  return *given ? std::chrono::milliseconds(**given) : otherwise;
}

}  // namespace tandem::platform
