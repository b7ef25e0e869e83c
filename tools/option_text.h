// SPDX-License-Identifier: Apache-2.0
//
// Checks of option values as text. Each returns an empty string for a good value; else one that
// names the value, what is possible, and so how to correct it. command_line.cc puts the option's
// name in front.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tandem/status.h"

namespace tandem::tool {

/// Largest size of a matrix that an option takes. Memory ends long before: check_memory() (job.h)
/// refuses what does not fit before anything multiplies two of these as integers.
inline constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;

/// A decimal integer in least..most.
[[nodiscard]] std::string check_integer(const std::string& text, std::int64_t least,
                                        std::int64_t most);
/// A finite decimal number of at least 0; with `positive`, above 0.
[[nodiscard]] std::string check_number(const std::string& text, bool positive);
/// An integer that a 64-bit seed can be.
[[nodiscard]] std::string check_seed(const std::string& text);
/// One of a few words.
[[nodiscard]] std::string check_word(const std::string& text,
                                     const std::vector<std::string>& words);
/// "1Gbit/s,50us": what parse_link() takes.
[[nodiscard]] std::string check_link(const std::string& text);
/// "100,0,333,7".
[[nodiscard]] std::string check_row_list(const std::string& text);
[[nodiscard]] Result<std::vector<std::int64_t>> parse_row_list(const std::string& text);
/// "0,1": what a device is, and whether it exists, check_devices() (tandem/launch.h) knows.
[[nodiscard]] std::string check_device_list(const std::string& text);
[[nodiscard]] Result<std::vector<int>> parse_device_list(const std::string& text);
/// "90", "90s", "10m" or "2h": up to a year.
[[nodiscard]] std::string check_duration(const std::string& text);
[[nodiscard]] Result<std::chrono::milliseconds> parse_duration(const std::string& text);

/// "2,4,8": integers in least..most.
[[nodiscard]] Result<std::vector<std::int64_t>> parse_integers(const std::string& text,
                                                               std::int64_t least,
                                                               std::int64_t most);

}  // namespace tandem::tool
