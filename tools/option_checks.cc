// SPDX-License-Identifier: Apache-2.0
//
// Wording of the option checks. An empty text means that the value is good.
#include "option_checks.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "tandem/transport.h"
#include "tandem/world.h"

namespace tandem::tool {
namespace {

template <class Integer>
bool parse_whole(std::string_view text, Integer& value) {
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  return error == std::errc() && end == last;
}

CLI::Validator quiet(std::function<std::string(std::string&)> check) {
  // No description: the help text of each option says what it takes.
  return CLI::Validator(std::move(check), "");
}

}  // namespace

CLI::Validator integer_in(std::int64_t least, std::int64_t most) {
  return quiet([least, most](std::string& text) {
    std::int64_t value = 0;
    if (parse_whole<std::int64_t>(text, value) && value >= least && value <= most) {
      return std::string();
    }
    return fmt::format("'{}' is not an integer in {}..{}", text, least, most);
  });
}

CLI::Validator seed() {
  return quiet([](std::string& text) {
    std::uint64_t value = 0;
    if (parse_whole<std::uint64_t>(text, value)) return std::string();
    return fmt::format("'{}' is not an integer in 0..2^64-1", text);
  });
}

CLI::Validator one_of(std::vector<std::string> words) {
  return quiet([words = std::move(words)](std::string& text) {
    if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
    return fmt::format("'{}' is not one of: {}", text, fmt::join(words, ", "));
  });
}

CLI::Validator link_text() {
  return quiet([](std::string& text) { return parse_link(text).status().message(); });
}

CLI::Validator row_list() {
  return quiet([](std::string& text) { return parse_row_list(text).status().message(); });
}

Result<std::vector<std::int64_t>> parse_row_list(const std::string& text) {
  std::vector<std::int64_t> rows;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    std::int64_t value = 0;
    if (!parse_whole<std::int64_t>(part, value) || value < 0 || value > kMaxSize) {
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

}  // namespace tandem::tool
