// SPDX-License-Identifier: Apache-2.0
//
// What s8 results are checked against: an integer oracle with s64 sums, and the dequantisation and
// quantisation written out once more from docs/numerics.md. Shares nothing with tile/ and block/.
// Start reading at reference_gemm_dequant().
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/element.h"
#include "op/validate.h"
#include "tandem/reference.h"

namespace tandem {
namespace {

using Sums = std::vector<std::int64_t>;

constexpr DType kOutputs[] = {DType::f16, DType::bf16, DType::f32, DType::s32, DType::s8};

/// work(begin, end) for parts of the rows, on up to `threads` threads.
template <class Work>
void in_parallel(std::int64_t rows, int threads, const Work& work) {
  std::vector<std::thread> team;
  std::int64_t begin = 0;
  for (int t = 0; t + 1 < threads; ++t) {
    const std::int64_t end = rows * (t + 1) / threads;
    try {
      team.emplace_back(work, begin, end);
    } catch (const std::system_error&) {
      break;  // no more threads to be had: the rest is done here
    }
    begin = end;
  }
  work(begin, rows);
  for (std::thread& thread : team) thread.join();
}

/// sums[j] = Σ_k a[k] · b[k, j].
void row_sums(const std::int8_t* a, const ConstMatrix& b, BLayout layout, Sums& sums) {
  std::fill(sums.begin(), sums.end(), 0);
  const auto n = static_cast<std::int64_t>(sums.size());
  if (layout == BLayout::kn) {
    for (std::int64_t k = 0; k < b.rows; ++k) {
      const auto* row = reinterpret_cast<const std::int8_t*>(b.row(k));
      const std::int64_t factor = a[k];
      for (std::int64_t j = 0; j < n; ++j) sums[static_cast<std::size_t>(j)] += factor * row[j];
    }
    return;
  }
  for (std::int64_t j = 0; j < n; ++j) {
    const auto* row = reinterpret_cast<const std::int8_t*>(b.row(j));
    std::int64_t sum = 0;
    for (std::int64_t k = 0; k < b.cols; ++k) sum += std::int64_t{a[k]} * row[k];
    sums[static_cast<std::size_t>(j)] = sum;
  }
}

float factor(std::span<const float> factors, std::int64_t j) {
  return factors.size() == 1 ? factors[0] : factors[static_cast<std::size_t>(j)];
}

void write_output(const DequantReference& p, std::int64_t i, std::int64_t j, std::int64_t sum,
                  DType type, std::byte* to) {
  const std::int64_t acc = sum + (p.bias.empty() ? 0 : p.bias[static_cast<std::size_t>(j)]);
  const auto narrow = static_cast<std::int32_t>(acc);
  if (type == DType::s32) {
    std::memcpy(to, &narrow, sizeof narrow);
    return;
  }
  float value = static_cast<float>(narrow) * factor(p.dequantisation.scale, j);
  if (!p.row_scale.empty()) value *= p.row_scale[static_cast<std::size_t>(i)];
  if (type == DType::s8) {
    const float scaled = value * factor(p.dequantisation.requantise, j);
    const double rounded = std::nearbyint(static_cast<double>(scaled));
    const auto q = static_cast<std::int8_t>(
        std::isnan(scaled) ? 0.0 : std::min(std::max(rounded, -128.0), 127.0));
    std::memcpy(to, &q, sizeof q);
    return;
  }
  if (p.dequantisation.saturate && type != DType::f32 && !std::isnan(value)) {
    const float largest = type == DType::f16 ? base::widen_f16(0x7bff) : base::widen_bf16(0x7f7f);
    value = std::min(std::max(value, -largest), largest);
  }
  base::store_element(type, value, to);
}

}  // namespace

Status reference_gemm_dequant(const DequantReference& p, Matrix c, int threads) {
  const bool kn = p.layout == BLayout::kn;
  const std::int64_t n = kn ? p.b.cols : p.b.rows;
  constexpr DType kS8[] = {DType::s8};
  Status valid =
      op::first_failure(op::check_matrix("a", p.a, kS8), op::check_matrix("b", p.b, kS8),
                        op::check_matrix("c", c, kOutputs), op::check_shape("c", c, p.a.rows, n),
                        op::check_shape("b", p.b, kn ? p.a.cols : n, kn ? n : p.a.cols),
                        op::check_range("threads", threads, 1, 1024));
  if (!valid.ok()) return valid;

  in_parallel(p.a.rows, threads, [&](std::int64_t begin, std::int64_t end) {
    Sums sums(static_cast<std::size_t>(n));
    for (std::int64_t i = begin; i < end; ++i) {
      row_sums(reinterpret_cast<const std::int8_t*>(p.a.row(i)), p.b, p.layout, sums);
      std::byte* to = c.row(i);
      for (std::int64_t j = 0; j < n; ++j, to += size_of(c.type)) {
        write_output(p, i, j, sums[static_cast<std::size_t>(j)], c.type, to);
      }
    }
  });
  return {};
}

Status reference_dequantise(ConstMatrix sums, const Dequantisation& dequantisation,
                            std::span<const float> row_scale, Matrix c, int threads) {
  constexpr DType kSums[] = {DType::s32};
  Status valid = op::first_failure(
      op::check_matrix("sums", sums, kSums), op::check_matrix("c", c, kOutputs),
      op::check_shape("c", c, sums.rows, sums.cols), op::check_range("threads", threads, 1, 1024));
  if (!valid.ok()) return valid;
  const DequantReference p{.dequantisation = dequantisation, .row_scale = row_scale};
  in_parallel(sums.rows, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto* row = reinterpret_cast<const std::int32_t*>(sums.row(i));
      std::byte* to = c.row(i);
      for (std::int64_t j = 0; j < sums.cols; ++j, to += size_of(c.type)) {
        write_output(p, i, j, row[j], c.type, to);
      }
    }
  });
  return {};
}

Status reference_quantise(ConstMatrix a, Matrix q, std::span<float> row_scale) {
  constexpr DType kS8[] = {DType::s8};
  constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32};
  Status valid = op::first_failure(
      op::check_matrix("a", a, kFloats), op::check_matrix("q", q, kS8),
      op::check_shape("q", q, a.rows, a.cols),
      op::check_range("row_scale entries", static_cast<std::int64_t>(row_scale.size()), a.rows,
                      a.rows));
  if (!valid.ok()) return valid;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    const auto element = [&](std::int64_t k) {
      return base::load_element(a.type, a.row(i) + static_cast<std::size_t>(k) * size_of(a.type));
    };
    float largest = 0;
    bool finite = true;
    for (std::int64_t k = 0; k < a.cols; ++k) {
      finite = finite && std::isfinite(element(k));
      largest = std::max(largest, std::abs(element(k)));
    }
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float scale = !finite ? nan : largest == 0 ? 1.0F : largest / 127.0F;
    row_scale[static_cast<std::size_t>(i)] = scale;
    for (std::int64_t k = 0; k < a.cols; ++k) {
      const float rounded = finite ? std::nearbyint(element(k) / scale) : 0.0F;
      const auto value = static_cast<std::int8_t>(std::min(std::max(rounded, -127.0F), 127.0F));
      std::memcpy(q.row(i) + k, &value, sizeof value);
    }
  }
  return {};
}

}  // namespace tandem
