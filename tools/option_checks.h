// SPDX-License-Identifier: Apache-2.0
//
// Checks that the options share. Each names the value that was given, what is possible, and so how
// to correct it; CLI11 adds the option's name in front.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tandem/status.h"

namespace tandem::tool {

/// Largest size of a matrix that an option takes. Memory ends long before: check_memory() (job.h)
/// refuses what does not fit before anything multiplies two of these as integers.
inline constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;

/// A decimal integer in least..most.
[[nodiscard]] CLI::Validator integer_in(std::int64_t least, std::int64_t most);
/// An integer that a 64-bit seed can be.
[[nodiscard]] CLI::Validator seed();
/// One of a few words.
[[nodiscard]] CLI::Validator one_of(std::vector<std::string> words);
/// "1Gbit/s,50us": what parse_link() takes.
[[nodiscard]] CLI::Validator link_text();
/// "100,0,333,7".
[[nodiscard]] CLI::Validator row_list();
[[nodiscard]] Result<std::vector<std::int64_t>> parse_row_list(const std::string& text);

}  // namespace tandem::tool
