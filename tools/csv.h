// SPDX-License-Identifier: Apache-2.0
//
// Comma-separated values as RFC 4180 has them, one line at a time: shape_list.cc reads lists of
// shapes, bench_table.cc keeps its results.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::tool {

/// The fields of a line, without quotes, without spaces around them and without a carriage return.
[[nodiscard]] std::vector<std::string> split_csv(std::string_view line);
/// A field, quoted where it has to be.
[[nodiscard]] std::string csv_field(std::string_view text);
[[nodiscard]] std::string join_csv(const std::vector<std::string>& fields);

}  // namespace tandem::tool
