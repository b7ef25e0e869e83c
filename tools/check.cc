// SPDX-License-Identifier: Apache-2.0
//
// `tandem check OUTPUT GOLDEN`: compares two matrix files bit for bit, in blocks.
#include <algorithm>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "commands.h"
#include "matrix_file.h"
#include "matrix_memory.h"
#include "option_checks.h"
#include "report.h"
#include "verification.h"

namespace tandem::tool {
namespace {

// Elements held of each file at a time.
constexpr std::int64_t kBlockElements = std::int64_t{1} << 22;

struct CheckOptions {
  std::string output, golden, type;
  std::int64_t cols = 0;
  bool json = false, quiet = false;
};

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

Json comparison_json(const CheckOptions& o, const Comparison& c) {
  Json json = {{"output", o.output}, {"golden", o.golden},     {"type", o.type},
               {"equal", c.equal()}, {"elements", c.elements}, {"different", c.different}};
  if (!c.equal()) {
    json["first_row"] = c.first_row;
    json["first_col"] = c.first_col;
    json["first_got"] = c.first_got;
    json["first_expected"] = c.first_expected;
    json["max_abs_difference"] = c.max_abs_difference;
  }
  return json;
}

Outcome check(const CheckOptions& o) {
  auto shape = shape_of(o);
  if (!shape.ok()) return failed(shape.status());
  auto comparison = compare_files(o, *shape);
  if (!comparison.ok()) return failed(comparison.status());
  const std::string text = comparison_text(o, *comparison);
  std::string output = o.json ? text_of(comparison_json(o, *comparison)) : text + "\n";
  if (!comparison->equal()) {
    return not_verified(fmt::format("{} differs from {}", o.output, o.golden), std::move(output));
  }
  if (o.quiet && !o.json) output.clear();
  return {.exit_code = kExitOk, .output = std::move(output), .kind = {}, .message = {}};
}

}  // namespace

void add_check(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("check", "compare two result files bit for bit");
  command->footer(
      "Any NaN equals any NaN. Exit code 1 when they differ, 2 when a file is missing or the\n"
      "sizes do not fit.\n\n"
      "Example:\n  tandem check out/output_rank0.bin out/golden.bin --type f32 --cols 1024");
  auto o = std::make_shared<CheckOptions>();
  command->add_option("output", o->output, "the file in question")->required();
  command->add_option("golden", o->golden, "what it must be")->required();
  command->add_option("--type", o->type, "type of the elements: f32, f16, bf16, s32, s8")
      ->check(one_of({"f32", "f16", "bf16", "s32", "s8"}))
      ->required();
  command->add_option("--cols", o->cols, "columns of a row, to name places as (row, column)")
      ->check(integer_in(1, kMaxSize));
  command->add_flag("--json", o->json, "print one JSON object, on failure {\"error\": {...}}");
  command->add_flag("--quiet", o->quiet, "print nothing when they are equal");
  command->callback([&invocation, o] { invocation.action = [o] { return check(*o); }; });
}

}  // namespace tandem::tool
