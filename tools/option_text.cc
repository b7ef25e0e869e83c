// SPDX-License-Identifier: Apache-2.0
//
// Wording of the checks of option values.
#include "option_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tandem/transport.h"
#include "tandem/world.h"

namespace tandem::tool {
namespace {

template <class Number>
bool parse_whole(std::string_view text, Number& value) {
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  return error == std::errc() && end == last;
}

}  // namespace

std::string check_integer(const std::string& text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  if (parse_whole(text, value) && value >= least && value <= most) return {};
  return fmt::format("'{}' is not an integer in {}..{}", text, least, most);
}

std::string check_number(const std::string& text, bool positive) {
  double value = 0;
  if (parse_whole(text, value) && std::isfinite(value) && (positive ? value > 0 : value >= 0)) {
    return {};
  }
  return fmt::format("'{}' is not a number {}", text, positive ? "above 0" : "of 0 or more");
}

std::string check_seed(const std::string& text) {
  std::uint64_t value = 0;
  return parse_whole(text, value) ? std::string()
                                  : fmt::format("'{}' is not an integer in 0..2^64-1", text);
}

std::string check_word(const std::string& text, const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), text) != words.end()) return {};
  return fmt::format("'{}' is not one of: {}", text, fmt::join(words, ", "));
}

std::string check_link(const std::string& text) { return parse_link(text).status().message(); }

std::string check_row_list(const std::string& text) {
  return parse_row_list(text).status().message();
}

Result<std::vector<std::int64_t>> parse_row_list(const std::string& text) {
  std::vector<std::int64_t> rows;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    std::int64_t value = 0;
    if (!parse_whole(part, value) || value < 0 || value > kMaxSize) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("'{}' in '{}' is not a number of rows in 0..{}; write one number "
                                "for each rank, as in 100,0,333,7",
                                part, text, kMaxSize));
    }
    rows.push_back(value);
    begin = end + 1;
  }
  if (rows.size() > static_cast<std::size_t>(kMaxRanks)) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("{} shards are given; at most {} ranks are possible", rows.size(), kMaxRanks));
  }
  return rows;
}

Result<std::vector<std::int64_t>> parse_integers(const std::string& text, std::int64_t least,
                                                 std::int64_t most) {
  std::vector<std::int64_t> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    std::int64_t value = 0;
    if (!parse_whole(part, value) || value < least || value > most) {
      return Status(
          StatusCode::kInvalidArgument,
          fmt::format("'{}' in '{}' is not an integer in {}..{}", part, text, least, most));
    }
    values.push_back(value);
    begin = end + 1;
  }
  return values;
}

std::string check_device_list(const std::string& text) {
  return parse_device_list(text).status().message();
}

Result<std::vector<int>> parse_device_list(const std::string& text) {
  std::vector<int> devices;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    int value = 0;
    if (!parse_whole(part, value) || value < 0) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("'{}' in '{}' is no device; write the number of one for each rank, "
                                "as in 0,1",
                                part, text));
    }
    devices.push_back(value);
    begin = end + 1;
  }
  return devices;
}

std::string check_duration(const std::string& text) {
  return parse_duration(text).status().message();
}

Result<std::chrono::milliseconds> parse_duration(const std::string& text) {
  constexpr std::int64_t kMostSeconds = 31'536'000;
  std::string number = text;
  std::int64_t unit = 1, value = 0;
  if (!number.empty()) {
    const char last = number.back();
    unit = last == 'h' ? 3600 : last == 'm' ? 60 : 1;
    if (last == 'h' || last == 'm' || last == 's') number.pop_back();
  }
  if (!parse_whole(number, value) || value < 1 || value > kMostSeconds / unit) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("'{}' is not a time in 1s..{}s; write 90, 90s, 10m or 2h", text, kMostSeconds));
  }
  return std::chrono::milliseconds(value * unit * 1000);
}

}  // namespace tandem::tool
