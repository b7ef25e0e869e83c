// SPDX-License-Identifier: Apache-2.0
//
// What s8 results are checked against: an integer oracle with s64 sums, and the dequantisation and
// quantisation written out once more from docs/numerics.md. Shares nothing with tile/ and block/.
// Start reading at reference_gemm_dequant().
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "base/element.h"
#include "base/guarded.h"
#include "op/parallel.h"
#include "op/validate.h"
#include "tandem/reference.h"

namespace tandem {
namespace {

using Sums = std::vector<std::int64_t>;

constexpr DType kOutputs[] = {DType::f16, DType::bf16, DType::f32, DType::s32, DType::s8};

/// Rows that a thread takes at a time.
constexpr std::int64_t kRowBlock = 16;

/// work(begin, end) for parts of the rows, on up to `threads` threads.
template <class Work>
Status in_row_blocks(std::int64_t rows, int threads, const Work& work) {
  const std::int64_t blocks = (rows + kRowBlock - 1) / kRowBlock;
  return op::in_parallel(blocks, threads, [&](op::Pieces& pieces) -> Status {
    while (const auto block = pieces.take()) {
      work(*block * kRowBlock, std::min((*block + 1) * kRowBlock, rows));
    }
    return {};
  });
}

ConstMatrix list(std::span<const float> values) {
  return dense(values.data(), DType::f32, 1, static_cast<std::int64_t>(values.size()));
}

/// What the last step needs, for outputs of M × N.
Status check_factors(const Dequantisation& d, std::span<const float> row_scale, const Matrix& c,
                     int threads) {
  const auto factors = [&](std::string_view what, std::span<const float> values, bool needed) {
    return op::check_list(what, values.data(), values.size(),
                          {.count = c.cols, .one_for_all = true, .optional = !needed});
  };
  return op::first_failure(op::check_matrix("c", c, kOutputs),
                           factors("scale", d.scale, c.type != DType::s32),
                           factors("requantise", d.requantise, c.type == DType::s8),
                           op::check_list("row_scale", row_scale.data(), row_scale.size(),
                                          {.count = c.rows, .each = "row", .optional = true}),
                           op::check_range("threads", threads, 1, op::kMaxThreads),
                           op::check_disjoint("scale", list(d.scale), "c", c),
                           op::check_disjoint("requantise", list(d.requantise), "c", c),
                           op::check_disjoint("row_scale", list(row_scale), "c", c));
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

/// Row i, quantised into row i of q; returns its scale.
float quantise_row(const ConstMatrix& a, std::int64_t i, const Matrix& q) {
  const auto element = [&](std::int64_t k) {
    return base::load_element(a.type, a.row(i) + static_cast<std::size_t>(k) * size_of(a.type));
  };
  float largest = 0;
  bool finite = true;
  for (std::int64_t k = 0; k < a.cols; ++k) {
    finite = finite && std::isfinite(element(k));
    largest = std::max(largest, std::abs(element(k)));
  }
  using Limits = std::numeric_limits<float>;
  float scale = 1.0F;
  if (largest > 0) scale = std::max(largest / 127.0F, Limits::denorm_min());
  if (!finite) scale = Limits::quiet_NaN();
  for (std::int64_t k = 0; k < a.cols; ++k) {
    const float rounded = finite ? std::nearbyint(element(k) / scale) : 0.0F;
    const auto value = static_cast<std::int8_t>(std::min(std::max(rounded, -127.0F), 127.0F));
    std::memcpy(q.row(i) + k, &value, sizeof value);
  }
  return scale;
}

}  // namespace

Status reference_gemm_dequant(const DequantReference& p, Matrix c, int threads) {
  return base::guarded([&]() -> Status {
    const bool kn = p.layout == BLayout::kn;
    const std::int64_t n = kn ? p.b.cols : p.b.rows;
    constexpr DType kS8[] = {DType::s8};
    Status valid = op::first_failure(
        op::check_matrix("a", p.a, kS8), op::check_matrix("b", p.b, kS8),
        op::check_layout(p.layout), op::check_matrix("c", c, kOutputs),
        op::check_range("K", p.a.cols, 1, std::numeric_limits<std::int64_t>::max()),
        op::check_shape("c", c, p.a.rows, n),
        op::check_shape("b", p.b, kn ? p.a.cols : n, kn ? n : p.a.cols),
        op::check_list("bias", p.bias.data(), p.bias.size(), {.count = n, .optional = true}),
        check_factors(p.dequantisation, p.row_scale, c, threads),
        op::check_disjoint("a", p.a, "c", c), op::check_disjoint("b", p.b, "c", c),
        op::check_disjoint(
            "bias", dense(p.bias.data(), DType::s32, 1, static_cast<std::int64_t>(p.bias.size())),
            "c", c));
    if (!valid.ok() || n == 0) return valid;
    return in_row_blocks(p.a.rows, threads, [&](std::int64_t begin, std::int64_t end) {
      Sums sums(static_cast<std::size_t>(n));
      for (std::int64_t i = begin; i < end; ++i) {
        row_sums(reinterpret_cast<const std::int8_t*>(p.a.row(i)), p.b, p.layout, sums);
        std::byte* to = c.row(i);
        for (std::int64_t j = 0; j < n; ++j, to += size_of(c.type)) {
          write_output(p, i, j, sums[static_cast<std::size_t>(j)], c.type, to);
        }
      }
    });
  });
}

Status reference_dequantise(ConstMatrix sums, const Dequantisation& dequantisation,
                            std::span<const float> row_scale, Matrix c, int threads) {
  return base::guarded([&]() -> Status {
    constexpr DType kSums[] = {DType::s32};
    Status valid =
        op::first_failure(op::check_matrix("sums", sums, kSums), op::check_matrix("c", c, kOutputs),
                          op::check_shape("c", c, sums.rows, sums.cols),
                          check_factors(dequantisation, row_scale, c, threads),
                          op::check_disjoint("sums", sums, "c", c));
    if (!valid.ok() || c.cols == 0) return valid;
    const DequantReference p{.dequantisation = dequantisation, .row_scale = row_scale};
    return in_row_blocks(sums.rows, threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto* row = reinterpret_cast<const std::int32_t*>(sums.row(i));
        std::byte* to = c.row(i);
        for (std::int64_t j = 0; j < sums.cols; ++j, to += size_of(c.type)) {
          write_output(p, i, j, row[j], c.type, to);
        }
      }
    });
  });
}

Status reference_quantise(ConstMatrix a, Matrix q, std::span<float> row_scale) {
  return base::guarded([&]() -> Status {
    constexpr DType kS8[] = {DType::s8};
    constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32};
    Status valid =
        op::first_failure(op::check_matrix("a", a, kFloats), op::check_matrix("q", q, kS8),
                          op::check_shape("q", q, a.rows, a.cols),
                          op::check_list("row_scale", row_scale.data(), row_scale.size(),
                                         {.count = a.rows, .each = "row"}),
                          op::check_disjoint("a", a, "q", q),
                          op::check_disjoint("a", a, "row_scale", list(row_scale)),
                          op::check_disjoint("q", q, "row_scale", list(row_scale)));
    if (!valid.ok()) return valid;
    for (std::int64_t i = 0; i < a.rows; ++i) {
      row_scale[static_cast<std::size_t>(i)] = quantise_row(a, i, q);
    }
    return {};
  });
}

}  // namespace tandem
