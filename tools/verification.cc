// SPDX-License-Identifier: Apache-2.0
//
// Verification in blocks of rows. Start reading at verify().
#include "verification.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "operators.h"

namespace tandem::tool {
namespace {

/// Gathered A from top to bottom, from the ranks' files or made again from the seed.
class GatheredRows {
 public:
  explicit GatheredRows(const Job& job) : job_(job) {}

  /// The next rows, at most `most`: a block ends with its shard.
  Result<ConstMatrix> next(std::int64_t most) {
    while (left_ == 0) {
      if (Status s = open(++rank_); !s.ok()) return s;
    }
    const std::int64_t rows = std::min(most, left_);
    if (!block_ || block_->view().rows < rows) {
      auto made = MatrixMemory::create(input_.type, most, input_.cols);
      if (!made.ok()) return made.status();
      block_ = std::move(made).value();
    }
    const Matrix m = block_->rows(0, rows);
    if (file_) {
      if (Status s = file_->read(m); !s.ok()) return s;
    } else {
      input_.fill(m, input_.seed, input_.row0 + input_.rows - left_);
    }
    left_ -= rows;
    return ConstMatrix(m);
  }

 private:
  Status open(int rank) {
    input_ = job_.op->inputs(job_, rank).front();
    left_ = input_.rows;
    if (job_.data_dir.empty()) return {};
    auto file = MatrixReader::open(
        input_path(job_, rank, input_.name),
        input_.rows * input_.cols * static_cast<std::int64_t>(size_of(input_.type)),
        shape_text(input_.rows, input_.cols, input_.type));
    if (!file.ok()) return file.status();
    file_.emplace(std::move(file).value());
    return {};
  }

  const Job& job_;
  int rank_ = -1;
  std::int64_t left_ = 0;
  Input input_;
  std::optional<MatrixReader> file_;
  std::optional<MatrixMemory> block_;
};

/// Rows that are compared together: enough for the reference to share out among its threads (it
/// takes 64 at a time), few enough to stay small beside C.
std::int64_t block_rows(const Job& job) { return std::int64_t{256} * job.compute_threads; }

}  // namespace

Path input_path(const Job& job, int rank, const std::string& name) {
  return job.data_dir / fmt::format("pe_{}_{}.bin", rank, name);
}
Path golden_path(const Job& job) { return job.data_dir / "golden.bin"; }
Path output_path(const Job& job, int rank) {
  return job.data_dir / fmt::format("output_rank{}.bin", rank);
}

std::string shape_text(std::int64_t rows, std::int64_t cols, DType type) {
  return fmt::format("{} x {} {}", rows, cols, name(type));
}

Result<bool> has_golden(const Job& job) {
  std::error_code error;
  if (job.data_dir.empty() || !std::filesystem::exists(golden_path(job), error)) return false;
  auto file = MatrixReader::open(golden_path(job),
                                 job.m * job.n * static_cast<std::int64_t>(size_of(job.c_type)),
                                 shape_text(job.m, job.n, job.c_type));
  if (!file.ok()) return file.status();
  return true;
}

Result<Verification> verify(const Job& job, const MatrixMemory& c,
                            const std::vector<Matrix>& others,
                            const std::function<void(double)>& progress) {
  Verification result;
  auto golden = has_golden(job);
  if (!golden.ok()) return golden.status();
  std::optional<MatrixReader> file;
  if (*golden) {
    auto opened = MatrixReader::open(golden_path(job), bytes_of(c.view()),
                                     shape_text(job.m, job.n, job.c_type));
    if (!opened.ok()) return opened.status();
    file.emplace(std::move(opened).value());
  }
  result.against = *golden ? golden_path(job).string() : "the reference";

  GatheredRows a(job);
  auto expected = MatrixMemory::create(job.c_type, std::min(job.m, block_rows(job)), job.n);
  if (!expected.ok()) return expected.status();
  for (std::int64_t row0 = 0, rows = 0; row0 < job.m; row0 += rows) {
    rows = std::min(block_rows(job), job.m - row0);
    if (file) {
      if (Status s = file->read(expected->rows(0, rows)); !s.ok()) return s;
    } else {
      auto a_rows = a.next(rows);
      if (!a_rows.ok()) return a_rows.status();
      rows = a_rows->rows;
      Status s =
          job.op->reference(job, *a_rows, others, expected->rows(0, rows), job.compute_threads);
      if (!s.ok()) return s;
    }
    auto block = compare(c.rows(row0, rows), expected->rows(0, rows));
    if (!block.ok()) return block.status();
    accumulate(result.comparison, *block, row0);
    progress(static_cast<double>(row0 + rows) / static_cast<double>(job.m));
  }
  return result;
}

void accumulate(Comparison& total, const Comparison& block, std::int64_t row0) {
  if (total.different == 0 && block.different > 0) {
    total.first_row = row0 + block.first_row;
    total.first_col = block.first_col;
    total.first_got = block.first_got;
    total.first_expected = block.first_expected;
  }
  total.elements += block.elements;
  total.different += block.different;
  total.max_abs_difference = std::max(total.max_abs_difference, block.max_abs_difference);
}

}  // namespace tandem::tool
