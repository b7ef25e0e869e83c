// SPDX-License-Identifier: Apache-2.0
//
// Compares results with the reference: bits for Tandem, a bound on f32 rounding for float peers,
// exact integers for s8. Start reading at Verifier::check().
#include "bench/peers/verify.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "tandem/reference.h"

namespace tandem::bench {
namespace {

/// The sample is what this many operations compute, within bounds: enough that every path of a
/// multiply (first, inner, edge tiles) shows, at a cost of about a hundredth of a second.
constexpr double kOperations = 3e8;
constexpr std::int64_t kMinRows = 2, kMaxRows = 24;

/// A sum of K products of values in [-1, 1) has rounding errors of about sqrt(K) · sqrt(K) / 3 half
/// ulps of one; a wrong element is off by about sqrt(K) / 3. K · 2^-22 lies well between.
double tolerance(std::int64_t k) { return static_cast<double>(k) * 0x1p-22; }

void multiply_s8(ConstMatrix a, ConstMatrix b, Matrix c) {
  for (std::int64_t i = 0; i < a.rows; ++i) {
    auto* sums = reinterpret_cast<std::int32_t*>(c.row(i));
    const auto* row = reinterpret_cast<const std::int8_t*>(a.row(i));
    std::fill(sums, sums + c.cols, 0);
    for (std::int64_t k = 0; k < a.cols; ++k) {
      const auto* line = reinterpret_cast<const std::int8_t*>(b.row(k));
      const std::int32_t factor = row[k];
      for (std::int64_t j = 0; j < c.cols; ++j) sums[j] += factor * line[j];
    }
  }
}

DType result_type(DType type) { return type == DType::s8 ? DType::s32 : DType::f32; }

double largest_difference(const float* got, const float* expected, std::int64_t count) {
  double largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - expected[i]);
    if (!(difference <= largest)) largest = difference;  // takes a NaN too
  }
  return largest;
}

}  // namespace

Verifier::Verifier(const Problem& problem) : problem_(problem) {
  const Shape& s = problem.shape();
  const double per_row = s.operations() / static_cast<double>(s.m);
  const std::int64_t count = std::min(
      s.m, std::clamp(static_cast<std::int64_t>(kOperations / per_row), kMinRows, kMaxRows));
  for (std::int64_t i = 0; i < count; ++i) {
    rows_.push_back(count == 1 ? 0 : i * (s.m - 1) / (count - 1));
  }
}

Status Verifier::make_reference(DType type) {
  const Operands operands = problem_.operands(type);
  const auto rows = static_cast<std::int64_t>(rows_.size());
  const std::size_t line = static_cast<std::size_t>(operands.a.cols) * size_of(type);
  std::vector<std::byte> sample(rows_.size() * line);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    std::memcpy(sample.data() + i * line, operands.a.row(rows_[i]), line);
  }
  std::vector<std::byte>& c = references_[static_cast<std::size_t>(type)].c;
  c.resize(rows_.size() * static_cast<std::size_t>(operands.b.cols) * 4);
  const ConstMatrix a = dense(static_cast<const void*>(sample.data()), type, rows, operands.a.cols);
  const Matrix out = dense(c.data(), result_type(type), rows, operands.b.cols);
  if (type != DType::s8) return reference_gemm(a, operands.b, BLayout::kn, out);
  multiply_s8(a, operands.b, out);
  return {};
}

Check Verifier::check(Peer& peer) {
  const DType type = peer.type();
  const std::vector<std::byte>& reference = references_[static_cast<std::size_t>(type)].c;
  if (reference.empty()) {
    if (Status made = make_reference(type); !made.ok()) return {.text = made.message()};
  }
  const Matrix result = peer.result();
  const std::size_t line = static_cast<std::size_t>(result.cols) * size_of(result.type);
  std::memset(result.data, 0xff, line * static_cast<std::size_t>(result.rows));
  const auto start = std::chrono::steady_clock::now();
  if (Status ran = peer.run(); !ran.ok()) return {.text = ran.message()};
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  Check check = compare_sample(result, reference, peer.exact());
  check.seconds = took.count();
  return check;
}

Check Verifier::compare_sample(const Matrix& result, const std::vector<std::byte>& reference,
                               bool exact) const {
  const std::size_t line = static_cast<std::size_t>(result.cols) * size_of(result.type);
  std::vector<std::byte> got(reference.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    std::memcpy(got.data() + i * line, result.row(rows_[i]), line);
  }
  const auto rows = static_cast<std::int64_t>(rows_.size());
  const auto view = [&](const std::vector<std::byte>& c) {
    return dense(static_cast<const void*>(c.data()), result.type, rows, result.cols);
  };
  auto comparison = compare(view(got), view(reference));
  if (!comparison.ok()) return {.text = comparison.status().message()};
  if (comparison->equal()) return {.passed = true, .text = "bit-equal"};
  if (exact) return {.text = comparison->text()};
  if (result.type == DType::s32) {
    return {.passed = true,
            .text = fmt::format("saturates: {:.2f}% of elements wrong, by up to {:.0f}",
                                100.0 * static_cast<double>(comparison->different) /
                                    static_cast<double>(comparison->elements),
                                comparison->max_abs_difference)};
  }
  const double largest =
      largest_difference(reinterpret_cast<const float*>(got.data()),
                         reinterpret_cast<const float*>(reference.data()), rows * result.cols);
  const double bound = tolerance(problem_.shape().k);
  return {.passed = largest <= bound,
          .text = fmt::format("off by {:.1e}, {:.1e} allowed", largest, bound)};
}

}  // namespace tandem::bench
