// SPDX-License-Identifier: Apache-2.0
//
// BenchTable: the results of `bench --shapes` as a CSV file that grows by a line with every shape.
// Each line carries the configuration it was measured with, so that a later run can tell whether it
// may go on with the file. bench_list.cc fills it, distribution.cc and report_json.cc read it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "job.h"
#include "matrix_file.h"
#include "shape_list.h"
#include "tandem/measure.h"

namespace tandem::tool {

/// The fields of a line by their columns' names.
class BenchRow {
 public:
  explicit BenchRow(std::vector<std::string> fields) : fields_(std::move(fields)) {}
  [[nodiscard]] const std::string& text(std::string_view column) const;
  [[nodiscard]] double number(std::string_view column) const;  ///< 0 when it is none
  [[nodiscard]] Shape shape() const;
  /// Has figures: its result may still be wrong.
  [[nodiscard]] bool measured() const { return text("status") != "failed"; }
  [[nodiscard]] const std::vector<std::string>& fields() const { return fields_; }

 private:
  std::vector<std::string> fields_;
};

class BenchTable {
 public:
  /// Names of the columns: the shape, its figures, the configuration.
  static const std::vector<std::string>& columns();

  /// The file's lines, where there is one; a line that was cut off while it was written is dropped.
  /// Errors: kInvalidArgument when it is no such table, or was made with another configuration than
  /// this job's: the message names the first difference.
  static Result<BenchTable> open(const Path& path, const Job& job);

  [[nodiscard]] bool has(const Shape& shape) const;
  [[nodiscard]] const std::vector<BenchRow>& rows() const { return rows_; }

  /// Appends a line, at once and whole. Errors: kIo.
  Status add(const Job& job, const Measurement& measured, double peak_rss_mib);
  Status add_failed(const Job& job, const std::string& reason);

 private:
  Status append(std::vector<std::string> fields);

  Path path_;
  std::size_t whole_bytes_ = 0;  ///< of the file, up to its last whole line
  std::vector<BenchRow> rows_;
};

}  // namespace tandem::tool
