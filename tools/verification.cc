// SPDX-License-Identifier: Apache-2.0
//
// Verification in blocks of rows. Start reading at verify_whole().
#include "verification.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

#include "row_source.h"

namespace tandem::tool {
namespace {

/// Rows that are compared together: enough for the reference to share out among its threads (it
/// takes 64 at a time), few enough to stay small beside C.
std::int64_t block_rows(const Job& job) { return std::int64_t{256} * job.compute_threads; }

}  // namespace

std::string input_file_name(const Job& job, const std::string& rank, const Input& input) {
  if (job.file_names == FileNames::tandem) return fmt::format("pe_{}_{}.bin", rank, input.name);
  // What is the same on every rank is there once.
  return input.sharded ? fmt::format("{}_rank{}.bin", input.catccos_name, rank)
                       : fmt::format("{}.bin", input.catccos_name);
}
Path input_path(const Job& job, int rank, const Input& input) {
  return job.data_dir / input_file_name(job, std::to_string(rank), input);
}
Path golden_path(const Job& job) { return job.data_dir / "golden.bin"; }
Path output_path(const Job& job, int rank) {
  return job.data_dir / fmt::format("output_rank{}.bin", rank);
}
Path accumulators_path(const Job& job, int rank) {
  const bool own = job.file_names == FileNames::tandem;
  return job.data_dir / fmt::format("{}_rank{}.bin", own ? "accumulators" : "c_gm", rank);
}

Result<MatrixReader> open_input(const Job& job, int rank, const Input& input) {
  return MatrixReader::open(
      input_path(job, rank, input),
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

Result<Verification> verify_whole(const Verified& what) {
  const Job& job = what.job;
  Verification result;
  auto golden = has_golden(job);
  if (!golden.ok()) return golden.status();
  std::optional<MatrixReader> file;
  if (*golden) {
    auto opened = MatrixReader::open(golden_path(job), bytes_of(what.outputs.c),
                                     shape_text(job.m, job.n, job.c_type));
    if (!opened.ok()) return opened.status();
    file.emplace(std::move(opened).value());
  }
  result.against = *golden ? golden_path(job).string() : "the reference";

  RowSource source(job);
  const std::int64_t most = std::min(job.m, block_rows(job));
  auto block = RowBlock::create(job, what.inputs, most);
  if (!block.ok()) return block.status();
  auto expected = MatrixMemory::create(job.c_type, most, job.n);
  if (!expected.ok()) return expected.status();
  auto sums = MatrixMemory::create(DType::s32, what.outputs.accumulators ? most : 0, job.n);
  if (!sums.ok()) return sums.status();
  const auto add = [&](const Matrix& got, const Matrix& should, std::int64_t row0) {
    auto part = compare(got, should);
    if (part.ok()) accumulate(result.comparison, *part, row0);
    return part.status();
  };

  for (int rank = 0; rank < job.ranks; ++rank) {
    const std::int64_t shard = job.rows[static_cast<std::size_t>(rank)];
    for (std::int64_t first = 0, rows = 0; first < shard; first += rows) {
      rows = std::min(most, shard - first);
      const std::int64_t row0 = job.row0(rank) + first;
      if (!file || what.outputs.accumulators) {
        if (Status s = block->fill(source, rank, first, rows, 0); !s.ok()) return s;
      }
      Status made = file ? file->read(expected->rows(0, rows))
                         : job.op->reference(job, block->inputs(rows), expected->rows(0, rows),
                                             job.compute_threads);
      if (!made.ok()) return made;
      const Matrix c = rows_of(what.outputs.c, row0, rows);
      if (Status s = add(c, expected->rows(0, rows), row0); !s.ok()) return s;
      result.infinite += count_infinite(c);
      if (what.outputs.accumulators) {
        made =
            job.op->reference(job, block->inputs(rows), sums->rows(0, rows), job.compute_threads);
        if (!made.ok()) return made;
        Status s = add(rows_of(*what.outputs.accumulators, row0, rows), sums->rows(0, rows), row0);
        if (!s.ok()) return s;
      }
      what.progress(static_cast<double>(row0 + rows) / static_cast<double>(job.m));
    }
  }
  return result;
}

std::int64_t count_infinite(const ConstMatrix& m) {
  const auto count = [&m](auto mask, auto infinity) {
    std::int64_t found = 0;
    for (std::int64_t i = 0; i < m.rows; ++i) {
      const std::byte* row = m.row(i);
      for (std::int64_t j = 0; j < m.cols; ++j, row += sizeof mask) {
        decltype(mask) bits = 0;
        std::memcpy(&bits, row, sizeof bits);
        found += (bits & mask) == infinity ? 1 : 0;
      }
    }
    return found;
  };
  switch (m.type) {
    case DType::f16:
      return count(std::uint16_t{0x7fff}, std::uint16_t{0x7c00});
    case DType::bf16:
      return count(std::uint16_t{0x7fff}, std::uint16_t{0x7f80});
    case DType::f32:
      return count(std::uint32_t{0x7fffffff}, std::uint32_t{0x7f800000});
    default:
      return 0;
  }
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
