// SPDX-License-Identifier: Apache-2.0
//
// A table of recorded numbers: a header line, then values without quotes. For the tests beside it,
// which compare what was measured once with what the model says.
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace tandem::stream {

using Record = std::map<std::string, std::string>;

inline std::vector<std::string> split_fields(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream text(line);
  for (std::string field; std::getline(text, field, ',');) fields.push_back(field);
  return fields;
}

/// Lines that begin with # are left out. Empty when the file cannot be read.
inline std::vector<Record> read_table(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> names;
  std::vector<Record> records;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> fields = split_fields(line);
    if (names.empty()) {
      names = fields;
      continue;
    }
    Record record;
    for (std::size_t i = 0; i < names.size() && i < fields.size(); ++i) {
      record[names[i]] = fields[i];
    }
    records.push_back(record);
  }
  return records;
}

inline double number(const Record& record, const std::string& name) {
  return std::stod(record.at(name));
}
inline std::int64_t whole(const Record& record, const std::string& name) {
  return std::stoll(record.at(name));
}

}  // namespace tandem::stream
