// SPDX-License-Identifier: Apache-2.0
//
// The checks of option_text.h as CLI11 takes them. command_line.cc and job_command_line.cc declare
// options with them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "option_text.h"

namespace tandem::tool {

// The validators have no description of their own: the help text of each option says what it takes.
inline CLI::Validator integer_in(std::int64_t least, std::int64_t most) {
  return {[=](std::string& text) { return check_integer(text, least, most); }, ""};
}
inline CLI::Validator one_of(std::vector<std::string> words) {
  return {[words = std::move(words)](std::string& text) { return check_word(text, words); }, ""};
}
inline CLI::Validator number(bool positive) {
  return {[=](std::string& text) { return check_number(text, positive); }, ""};
}
inline CLI::Validator checked(std::string (*check)(const std::string&)) {
  return {[check](std::string& text) { return check(text); }, ""};
}

/// "type of C: f32, f16 (default f32)": the help text of an option with a few words.
inline std::string choice(const std::string& what, const std::vector<std::string>& words,
                          const std::string& standard) {
  return fmt::format("{}: {} (default {})", what, fmt::join(words, ", "), standard);
}

}  // namespace tandem::tool
