// SPDX-License-Identifier: Apache-2.0
//
// DequantCheck::check() is the place to start reading.
#include "dequant_check.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "tandem/product_check.h"
#include "verification.h"

namespace tandem::tool {
namespace {

/// Rows of wrong sums that are looked at closer, each by the reference: more tell nothing new.
constexpr int kMostWrongRows = 16;

class DequantCheck final : public BlockCheck {
 public:
  DequantCheck(const World& world, const Job& job, const DequantReference& problem,
               ProductCheck product, AllGatherGemmDequant op, MatrixMemory sums,
               MatrixMemory expected, MatrixMemory quantised)
      : world_(world),
        job_(job),
        problem_(problem),
        product_(std::move(product)),
        op_(std::move(op)),
        sums_(std::move(sums)),
        expected_(std::move(expected)),
        quantised_(std::move(quantised)) {}

  Result<Comparison> check(const std::vector<Matrix>& inputs, const std::vector<std::int64_t>& rows,
                           const Outputs& outputs) override {
    Matrix a = inputs[0];
    row_scale_ = {};
    if (job_.row_scales) {
      row_scale_ = {static_cast<const float*>(inputs.back().data),
                    static_cast<std::size_t>(a.rows)};
    }
    if (a.type != DType::s8) {
      made_scales_.resize(static_cast<std::size_t>(a.rows));
      const Matrix q = quantised_.rows(0, a.rows);
      if (Status s = reference_quantise(a, q, made_scales_); !s.ok()) return s;
      a = q;
      row_scale_ = made_scales_;
    }

    const Matrix sums = sums_.rows(0, a.rows);
    const auto own = rows.begin() + world_.rank();
    const std::int64_t before = std::accumulate(rows.begin(), own, std::int64_t{0});
    if (Status s = op_.run({.a = rows_of(a, before, *own), .c = sums, .rows = rows}); !s.ok()) {
      return s;
    }
    Comparison result;
    if (Status s = correct_sums(a, sums, result); !s.ok()) return s;

    const Matrix expected = expected_.rows(0, a.rows);
    Status made = reference_dequantise(sums, problem_.dequantisation, row_scale_, expected,
                                       job_.compute_threads);
    if (!made.ok()) return made;
    if (Status s = add(result, outputs.c, expected, 0); !s.ok()) return s;
    if (outputs.accumulators) {
      if (Status s = add(result, *outputs.accumulators, sums, 0); !s.ok()) return s;
    }
    return result;
  }

 private:
  static Status add(Comparison& result, const Matrix& got, const Matrix& expected,
                    std::int64_t row0) {
    auto block = compare(got, expected);
    if (block.ok()) accumulate(result, *block, row0);
    return block.status();
  }

  /// Rows of sums that are proved wrong count as wrong results of the operator, and are replaced by
  /// the reference's, so that C is judged by the truth.
  Status correct_sums(const Matrix& a, const Matrix& sums, Comparison& result) {
    std::int64_t begin = 0;
    for (int found = 0; found < kMostWrongRows && begin < a.rows; ++found) {
      auto wrong = product_.first_wrong_row(rows_of(a, begin, a.rows - begin),
                                            rows_of(sums, begin, a.rows - begin));
      if (!wrong.ok()) return wrong.status();
      if (*wrong < 0) break;
      const std::int64_t row = begin + *wrong;
      auto truth = MatrixMemory::create(DType::s32, 1, sums.cols);
      if (!truth.ok()) return truth.status();
      DequantReference one = problem_;
      one.a = rows_of(a, row, 1);
      one.row_scale = {};
      if (Status s = reference_gemm_dequant(one, truth->view()); !s.ok()) return s;
      if (Status s = add(result, rows_of(sums, row, 1), truth->view(), row); !s.ok()) return s;
      std::memcpy(sums.row(row), truth->view().data, static_cast<std::size_t>(sums.cols) * 4);
      begin = row + 1;
    }
    return {};
  }

  const World& world_;
  const Job& job_;
  DequantReference problem_;
  ProductCheck product_;
  AllGatherGemmDequant op_;
  MatrixMemory sums_, expected_, quantised_;
  std::vector<float> made_scales_;
  std::span<const float> row_scale_;
};

}  // namespace

Result<std::unique_ptr<BlockCheck>> make_dequant_check(const World& world, const Job& job,
                                                       const PackedWeights& weights,
                                                       const DequantReference& problem,
                                                       std::int64_t most_rows) {
  // Any number serves that the data does not know of; ranks draw different ones.
  constexpr std::uint64_t kOther = 0x5eedc0de;
  auto product = ProductCheck::create(problem.b, problem.layout, problem.bias,
                                      job.seed + kOther + static_cast<std::uint64_t>(world.rank()));
  if (!product.ok()) return product.status();
  StreamOptions options = job.stream_options();
  options.max_rows = most_rows;
  options.workspace = Workspace::full;
  auto op = AllGatherGemmDequant::create(world, weights, {}, options);
  if (!op.ok()) return op.status();
  const std::int64_t rows = most_rows * job.ranks;
  auto sums = MatrixMemory::create(DType::s32, rows, job.n);
  if (!sums.ok()) return sums.status();
  auto expected = MatrixMemory::create(job.c_type, rows, job.n);
  if (!expected.ok()) return expected.status();
  auto quantised = MatrixMemory::create(DType::s8, job.a_type == DType::s8 ? 0 : rows, job.k);
  if (!quantised.ok()) return quantised.status();
  return std::unique_ptr<BlockCheck>(std::make_unique<DequantCheck>(
      world, job, problem, std::move(product).value(), std::move(op).value(),
      std::move(sums).value(), std::move(expected).value(), std::move(quantised).value()));
}

}  // namespace tandem::tool
