// SPDX-License-Identifier: Apache-2.0
//
// Verification of results that the reference would take too long for: whole rows and columns drawn
// at random, and the block check of the operator for all the others. Every rank draws its own, and
// all go through the blocks together, since a block check is collective. Start reading at
// verify_sample().
#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <random>

#include "row_source.h"
#include "verification.h"

namespace tandem::tool {
namespace {

// Rows and columns of a rank's sample: a second of the reference, or a few, for the largest shapes.
constexpr std::int64_t kRows = 64, kColumns = 8;
// Rows of each shard in a block: large enough for the multiply's full speed.
constexpr std::int64_t kBlockRows = 256;

std::vector<std::int64_t> draw(std::int64_t from, std::int64_t count, std::mt19937_64& random) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(from)), drawn;
  std::iota(all.begin(), all.end(), std::int64_t{0});
  std::sample(all.begin(), all.end(), std::back_inserter(drawn), count, random);
  return drawn;
}

/// A matrix of chosen columns (or, for Along::rows, rows) of another.
Result<MatrixMemory> choose(const Matrix& from, Along along, const std::vector<std::int64_t>& at) {
  const auto count = static_cast<std::int64_t>(at.size());
  const bool rows = along == Along::rows;
  auto made = MatrixMemory::create(from.type, rows ? count : from.rows, rows ? from.cols : count);
  if (!made.ok()) return made;
  const Matrix to = made->view();
  const std::size_t element = size_of(from.type);
  for (std::int64_t i = 0; i < to.rows; ++i) {
    if (rows) {
      const auto row = static_cast<std::size_t>(i);
      std::memcpy(to.row(i), from.row(at[row]), static_cast<std::size_t>(from.cols) * element);
      continue;
    }
    for (std::size_t j = 0; j < at.size(); ++j) {
      std::memcpy(to.row(i) + j * element, from.row(i) + static_cast<std::size_t>(at[j]) * element,
                  element);
    }
  }
  return made;
}

/// The inputs cut down to the drawn columns of C.
struct ChosenColumns {
  std::vector<std::int64_t> at;
  std::vector<Matrix> inputs;
  std::vector<MatrixMemory> memory;

  Status cut(const Job& job, const std::vector<Matrix>& given) {
    inputs = given;
    const std::vector<Input> described = job.op->inputs(job, 0);
    for (std::size_t i = 0; i < described.size(); ++i) {
      if (described[i].columns == Along::none) continue;
      auto made = choose(given[i], described[i].columns, at);
      if (!made.ok()) return made.status();
      inputs[i] = made->view();
      memory.push_back(std::move(made).value());
    }
    return {};
  }
};

/// Rows of every rank's shard, stacked in rank order, with a copy of the rows of the outputs.
class Stack {
 public:
  static Result<Stack> create(const Verified& what) {
    const std::int64_t most = kBlockRows * what.job.ranks;
    auto block = RowBlock::create(what.job, what.inputs, most);
    if (!block.ok()) return block.status();
    auto c = MatrixMemory::create(what.job.c_type, most, what.job.n);
    if (!c.ok()) return c.status();
    auto sums = MatrixMemory::create(DType::s32, what.outputs.accumulators ? most : 0, what.job.n);
    if (!sums.ok()) return sums.status();
    return Stack(what, std::move(block).value(), std::move(c).value(), std::move(sums).value());
  }

  /// Rows [first, first + kBlockRows) of each shard that has them.
  Status load(std::int64_t first) {
    const Job& job = what_->job;
    rows.clear();
    global.clear();
    for (int rank = 0; rank < job.ranks; ++rank) {
      const std::int64_t shard = job.rows[static_cast<std::size_t>(rank)];
      const std::int64_t count = std::clamp<std::int64_t>(shard - first, 0, kBlockRows);
      const auto at = static_cast<std::int64_t>(global.size());
      rows.push_back(count);
      if (count == 0) continue;
      if (Status s = block_.fill(source_, rank, first, count, at); !s.ok()) return s;
      const std::int64_t row0 = job.row0(rank) + first;
      copy(what_->outputs.c, row0, c_.rows(at, count));
      if (what_->outputs.accumulators) {
        copy(*what_->outputs.accumulators, row0, sums_.rows(at, count));
      }
      for (std::int64_t i = 0; i < count; ++i) global.push_back(row0 + i);
    }
    return {};
  }

  [[nodiscard]] std::vector<Matrix> inputs() const { return block_.inputs(count()); }
  [[nodiscard]] Outputs outputs() const {
    Outputs all{.c = c_.rows(0, count()), .accumulators = std::nullopt};
    if (what_->outputs.accumulators) all.accumulators = sums_.rows(0, count());
    return all;
  }
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(global.size()); }

  std::vector<std::int64_t> rows;    ///< of each shard
  std::vector<std::int64_t> global;  ///< row of C that each row of the stack is

 private:
  Stack(const Verified& what, RowBlock block, MatrixMemory c, MatrixMemory sums)
      : what_(&what),
        source_(what.job),
        block_(std::move(block)),
        c_(std::move(c)),
        sums_(std::move(sums)) {}
  static void copy(const Matrix& from, std::int64_t row0, const Matrix& to) {
    std::memcpy(to.data, from.row(row0), static_cast<std::size_t>(bytes_of(to)));
  }

  const Verified* what_;
  RowSource source_;
  RowBlock block_;
  MatrixMemory c_, sums_;
};

/// Compares part of a stack; the first difference is named by its place in C.
void add(Verification& result, Comparison part, const Stack& stack,
         const std::vector<std::int64_t>* columns) {
  if (!part.equal()) {
    part.first_row = stack.global[static_cast<std::size_t>(part.first_row)];
    if (columns != nullptr) {
      part.first_col = (*columns)[static_cast<std::size_t>(part.first_col)];
    }
  }
  accumulate(result.comparison, part, 0);
}

Status check_columns(const Job& job, const ChosenColumns& columns, const Stack& stack,
                     Verification& result) {
  std::vector<Matrix> inputs = columns.inputs;
  const std::vector<Matrix> rows = stack.inputs();
  const std::vector<Input> described = job.op->inputs(job, 0);
  for (std::size_t i = 0; i < described.size(); ++i) {
    if (described[i].sharded) inputs[i] = rows[i];
  }
  auto got = choose(stack.outputs().c, Along::cols, columns.at);
  if (!got.ok()) return got.status();
  auto expected = MatrixMemory::create(job.c_type, stack.count(), got->view().cols);
  if (!expected.ok()) return expected.status();
  Status made = job.op->reference(job, inputs, expected->view(), job.compute_threads);
  if (!made.ok()) return made;
  auto part = compare(got->view(), expected->view());
  if (part.ok()) add(result, *part, stack, &columns.at);
  return part.status();
}

Status check_rows(const Job& job, const std::vector<std::int64_t>& drawn, const Stack& stack,
                  Verification& result) {
  auto expected = MatrixMemory::create(job.c_type, 1, job.n);
  if (!expected.ok()) return expected.status();
  for (std::int64_t at = 0; at < stack.count(); ++at) {
    const std::int64_t row = stack.global[static_cast<std::size_t>(at)];
    if (!std::binary_search(drawn.begin(), drawn.end(), row)) continue;
    std::vector<Matrix> inputs = stack.inputs();
    const std::vector<Input> described = job.op->inputs(job, 0);
    for (std::size_t i = 0; i < described.size(); ++i) {
      if (described[i].sharded) inputs[i] = rows_of(inputs[i], at, 1);
    }
    Status made = job.op->reference(job, inputs, expected->view(), job.compute_threads);
    if (!made.ok()) return made;
    auto part = compare(rows_of(stack.outputs().c, at, 1), expected->view());
    if (!part.ok()) return part.status();
    accumulate(result.comparison, *part, row);
  }
  return {};
}

}  // namespace

Result<Verification> verify_sample(const World& world, const Verified& what, Runner& runner) {
  const Job& job = what.job;
  std::mt19937_64 random(job.seed * std::uint64_t{64} + static_cast<std::uint64_t>(world.rank()));
  const std::vector<std::int64_t> rows = draw(job.m, kRows, random);
  ChosenColumns columns{.at = draw(job.n, kColumns, random), .inputs = {}, .memory = {}};
  if (Status s = columns.cut(job, what.inputs); !s.ok()) return s;
  auto block_check = runner.block_check(std::min(kBlockRows, job.max_rows()));
  if (!block_check.ok()) return block_check.status();

  Verification result{.against = "the reference",
                      .whole = false,
                      .rows = static_cast<std::int64_t>(rows.size()),
                      .columns = static_cast<std::int64_t>(columns.at.size()),
                      .every_element = *block_check != nullptr};
  auto stack = Stack::create(what);
  if (!stack.ok()) return stack.status();
  for (std::int64_t first = 0; first < job.max_rows(); first += kBlockRows) {
    if (Status s = stack->load(first); !s.ok()) return s;
    if (stack->count() == 0) break;
    if (Status s = check_rows(job, rows, *stack, result); !s.ok()) return s;
    if (Status s = check_columns(job, columns, *stack, result); !s.ok()) return s;
    if (*block_check) {
      auto part = (*block_check)->check(stack->inputs(), stack->rows, stack->outputs());
      if (!part.ok()) return part.status();
      add(result, *part, *stack, nullptr);
    }
    result.infinite += count_infinite(stack->outputs().c);
    what.progress(static_cast<double>(first + kBlockRows) / static_cast<double>(job.max_rows()));
  }
  return result;
}

}  // namespace tandem::tool
