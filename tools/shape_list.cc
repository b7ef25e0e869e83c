// SPDX-License-Identifier: Apache-2.0
//
// Reading of a list of shapes, line by line.
#include "shape_list.h"

#include <cctype>
#include <fstream>
#include <optional>

#include <fmt/format.h>

#include "csv.h"
#include "option_text.h"

namespace tandem::tool {
namespace {

constexpr const char* kNames[] = {"M", "K", "N"};

struct Columns {
  std::size_t at[3];
};

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

/// Empty when all is well.
std::string parse_header(const std::vector<std::string>& fields, Columns& columns) {
  for (std::size_t c = 0; c < 3; ++c) {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (upper(fields[i]) != kNames[c]) continue;
      if (found) return fmt::format("the header names the column {} twice", kNames[c]);
      found = i;
    }
    if (!found) {
      return fmt::format("the header must name the columns M, K and N, and has no {}", kNames[c]);
    }
    columns.at[c] = *found;
  }
  return {};
}

std::string parse_row(const std::vector<std::string>& fields, const Columns& columns,
                      Shape& shape) {
  std::int64_t* const values[] = {&shape.m, &shape.k, &shape.n};
  for (std::size_t c = 0; c < 3; ++c) {
    if (columns.at[c] >= fields.size()) {
      return fmt::format("there is no {}: {} fields, and it is number {}", kNames[c], fields.size(),
                         columns.at[c] + 1);
    }
    const std::string& text = fields[columns.at[c]];
    if (std::string bad = check_integer(text, 1, kMaxSize); !bad.empty()) {
      return fmt::format("{}: {}", kNames[c], bad);
    }
    *values[c] = std::stoll(text);
  }
  return {};
}

}  // namespace

std::string Shape::text() const { return fmt::format("{} x {} x {}", m, k, n); }

Result<std::vector<Shape>> read_shapes(const Path& path) {
  const auto refuse = [&path](int line, const std::string& why) {
    return Status(StatusCode::kInvalidArgument,
                  line == 0 ? fmt::format("{}: {}", path.string(), why)
                            : fmt::format("{}:{}: {}", path.string(), line, why));
  };
  std::ifstream file(path);
  std::error_code error;
  if (!file || !std::filesystem::is_regular_file(path, error)) {
    return refuse(0, "cannot be read; give a CSV file with the columns M, K and N");
  }
  std::vector<Shape> shapes;
  std::optional<Columns> columns;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (number == 1 && line.rfind(kByteOrderMark, 0) == 0) line.erase(0, kByteOrderMark.size());
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::vector<std::string> fields = split_csv(line);
    std::string bad;
    if (!columns) {
      bad = parse_header(fields, columns.emplace());
    } else {
      bad = parse_row(fields, *columns, shapes.emplace_back());
    }
    if (!bad.empty()) return refuse(number, bad);
  }
  if (shapes.empty()) return refuse(0, "no shape is in it; write lines as in 64,16384,7168");
  return shapes;
}

}  // namespace tandem::tool
