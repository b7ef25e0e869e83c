// SPDX-License-Identifier: Apache-2.0
//
// `tandem check OUTPUT GOLDEN`: compares two matrix files bit for bit, in blocks.
#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "commands.h"
#include "matrix_file.h"
#include "matrix_memory.h"
#include "report.h"
#include "report_json.h"
#include "verification.h"

namespace tandem::tool {
namespace {

// Elements held of each file at a time.
constexpr std::int64_t kBlockElements = std::int64_t{1} << 22;

struct Shape {
  DType type;
  std::int64_t rows, cols;
};

/// The shape that both files must have: from the size of the golden one.
Result<Shape> shape_of(const CheckOptions& o) {
  const DType type = parse_dtype(o.type).value_or(DType::f32);
  // Without --cols, elements are numbered: one to a row.
  const std::int64_t cols = std::max<std::int64_t>(1, o.cols);
  const std::int64_t row_bytes = cols * static_cast<std::int64_t>(size_of(type));
  std::error_code error;
  const auto size = std::filesystem::file_size(o.golden, error);
  if (error) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{}: {}; check the name", o.golden, error.message()));
  }
  const auto bytes = static_cast<std::int64_t>(size);
  if (bytes % row_bytes != 0) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} has {} bytes, which is no multiple of {} ({} of {}): check "
                              "--type{}",
                              o.golden, bytes, row_bytes, counted(cols, "element"), o.type,
                              o.cols > 0 ? " and --cols" : ""));
  }
  return Shape{type, bytes / row_bytes, cols};
}

Result<Comparison> compare_files(const CheckOptions& o, const Shape& shape) {
  const std::string what = fmt::format("as many as {}", o.golden);
  const std::int64_t bytes =
      shape.rows * shape.cols * static_cast<std::int64_t>(size_of(shape.type));
  auto output = MatrixReader::open(o.output, bytes, what);
  if (!output.ok()) return output.status();
  auto golden = MatrixReader::open(o.golden, bytes, what);
  if (!golden.ok()) return golden.status();

  const std::int64_t block = std::clamp<std::int64_t>(kBlockElements / shape.cols, 1,
                                                      std::max<std::int64_t>(1, shape.rows));
  auto x = MatrixMemory::create(shape.type, block, shape.cols);
  auto y = MatrixMemory::create(shape.type, block, shape.cols);
  if (!x.ok()) return x.status();
  if (!y.ok()) return y.status();
  Comparison total;
  for (std::int64_t row0 = 0; row0 < shape.rows; row0 += block) {
    const std::int64_t rows = std::min(block, shape.rows - row0);
    if (Status s = output->read(x->rows(0, rows)); !s.ok()) return s;
    if (Status s = golden->read(y->rows(0, rows)); !s.ok()) return s;
    auto part = compare(x->rows(0, rows), y->rows(0, rows));
    if (!part.ok()) return part.status();
    accumulate(total, *part, row0);
  }
  return total;
}

std::string comparison_text(const CheckOptions& o, const Comparison& c) {
  if (c.equal() || o.cols > 0) return c.text();
  return c.text() + "; (element, 0) without --cols";
}

}  // namespace

Outcome check(const CheckOptions& o) {
  auto shape = shape_of(o);
  if (!shape.ok()) return failed(shape.status());
  auto comparison = compare_files(o, *shape);
  if (!comparison.ok()) return failed(comparison.status());
  const std::string text = comparison_text(o, *comparison);
  std::string output = o.json ? check_json(o, *comparison) : text + "\n";
  if (!comparison->equal()) {
    return not_verified(fmt::format("{} differs from {}", o.output, o.golden), std::move(output));
  }
  if (o.quiet && !o.json) output.clear();
  return {.output = std::move(output)};
}

}  // namespace tandem::tool
