// SPDX-License-Identifier: Apache-2.0
//
// Splitting and quoting.
#include "csv.h"

namespace tandem::tool {
namespace {

std::string trimmed(std::string_view text) {
  constexpr const char* kSpace = " \t\r";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kSpace) - begin + 1));
}

}  // namespace

std::vector<std::string> split_csv(std::string_view line) {
  std::vector<std::string> fields;
  std::string field;
  bool quoted = false, was_quoted = false;
  const auto end_field = [&] {
    fields.push_back(was_quoted ? field : trimmed(field));
    field.clear();
    was_quoted = false;
  };
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      if (c != '"') {
        field += c;
      } else if (i + 1 < line.size() && line[i + 1] == '"') {
        field += line[++i];
      } else {
        quoted = false;
      }
    } else if (c == '"' && trimmed(field).empty()) {
      quoted = was_quoted = true;
      field.clear();
    } else if (c == ',') {
      end_field();
    } else if (!was_quoted) {
      field += c;
    }
  }
  end_field();
  return fields;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"') quoted += '"';
    quoted += c == '\n' || c == '\r' ? ' ' : c;
  }
  return quoted + '"';
}

std::string join_csv(const std::vector<std::string>& fields) {
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) line += ',';
    line += csv_field(fields[i]);
  }
  return line;
}

}  // namespace tandem::tool
