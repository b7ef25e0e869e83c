// SPDX-License-Identifier: Apache-2.0
//
// Verification in blocks of rows. Start reading at verify().
#include "verification.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

namespace tandem::tool {
namespace {

/// The sharded inputs of all ranks from top to bottom, from their files or made again from the
/// seed.
class GatheredRows {
 public:
  explicit GatheredRows(const Job& job) : job_(job) {}

  /// Puts the next rows, at most `most`, in the places of the sharded inputs; a block ends with its
  /// shard. Returns their number.
  Result<std::int64_t> next(std::int64_t most, std::vector<Matrix>& inputs) {
    while (left_ == 0) {
      if (Status s = open(++rank_, most); !s.ok()) return s;
    }
    const std::int64_t rows = std::min(most, left_);
    for (Source& source : sources_) {
      const Matrix m = source.block.rows(0, rows);
      const Input& input = source.input;
      if (source.file) {
        if (Status s = source.file->read(m); !s.ok()) return s;
      } else {
        input.fill(m, input.seed, input.row0 + input.rows - left_);
      }
      inputs[source.place] = m;
    }
    left_ -= rows;
    return rows;
  }

 private:
  struct Source {
    std::size_t place;  // among the inputs
    Input input;
    MatrixMemory block;
    std::optional<MatrixReader> file;
  };

  Status open(int rank, std::int64_t most) {
    const std::vector<Input> inputs = job_.op->inputs(job_, rank);
    sources_.clear();
    for (std::size_t place = 0; place < inputs.size(); ++place) {
      const Input& input = inputs[place];
      if (!input.sharded) continue;
      auto block = MatrixMemory::create(input.type, std::min(most, input.rows), input.cols);
      if (!block.ok()) return block.status();
      sources_.push_back({place, input, std::move(block).value(), std::nullopt});
      left_ = input.rows;
      if (job_.data_dir.empty()) continue;
      auto file = open_input(job_, rank, input);
      if (!file.ok()) return file.status();
      sources_.back().file.emplace(std::move(file).value());
    }
    return {};
  }

  const Job& job_;
  int rank_ = -1;
  std::int64_t left_ = 0;
  std::vector<Source> sources_;
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

Result<MatrixReader> open_input(const Job& job, int rank, const Input& input) {
  return MatrixReader::open(
      input_path(job, rank, input.name),
      input.rows * input.cols * static_cast<std::int64_t>(size_of(input.type)),
      shape_text(input.rows, input.cols, input.type));
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
                            const std::vector<Matrix>& inputs,
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

  GatheredRows gathered(job);
  std::vector<Matrix> block_inputs = inputs;
  auto expected = MatrixMemory::create(job.c_type, std::min(job.m, block_rows(job)), job.n);
  if (!expected.ok()) return expected.status();
  for (std::int64_t row0 = 0, rows = 0; row0 < job.m; row0 += rows) {
    rows = std::min(block_rows(job), job.m - row0);
    if (file) {
      if (Status s = file->read(expected->rows(0, rows)); !s.ok()) return s;
    } else {
      auto got = gathered.next(rows, block_inputs);
      if (!got.ok()) return got.status();
      rows = *got;
      Status s = job.op->reference(job, block_inputs, expected->rows(0, rows), job.compute_threads);
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
