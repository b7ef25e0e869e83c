// SPDX-License-Identifier: Apache-2.0
//
// Freivalds' check in integers modulo 2^64, by plain loops. Shares nothing with tile/ and block/.
#include "tandem/product_check.h"

#include <limits>
#include <random>

#include "base/guarded.h"
#include "op/validate.h"

namespace tandem {
namespace {

/// Σ_i row[i] · weights[i] modulo 2^64: the conversion of a negative number is modulo 2^64 too.
template <class Integer>
std::uint64_t dot(const std::byte* row, const std::vector<std::uint64_t>& weights) {
  const auto* values = reinterpret_cast<const Integer*>(row);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += static_cast<std::uint64_t>(std::int64_t{values[i]}) * weights[i];
  }
  return sum;
}

}  // namespace

Result<ProductCheck> ProductCheck::create(ConstMatrix b, BLayout layout,
                                          std::span<const std::int32_t> bias, std::uint64_t seed) {
  return base::guarded([&]() -> Result<ProductCheck> {
    const bool kn = layout == BLayout::kn;
    const std::int64_t k = kn ? b.rows : b.cols, n = kn ? b.cols : b.rows;
    constexpr DType kS8[] = {DType::s8};
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    Status valid = op::first_failure(
        op::check_matrix("b", b, kS8), op::check_layout(layout), op::check_range("K", k, 1, kMost),
        op::check_range("N", n, 1, kMost),
        op::check_list("bias", bias.data(), bias.size(), {.count = n, .optional = true}));
    if (!valid.ok()) return valid;

    ProductCheck check;
    std::mt19937_64 random(seed);
    check.x_.resize(static_cast<std::size_t>(n));
    for (std::uint64_t& x : check.x_) x = random();
    check.y_.assign(static_cast<std::size_t>(k), 0);
    for (std::int64_t i = 0; i < b.rows; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (kn) {
        check.y_[at] = dot<std::int8_t>(b.row(i), check.x_);
        continue;
      }
      const auto* row = reinterpret_cast<const std::int8_t*>(b.row(i));
      for (std::size_t kk = 0; kk < check.y_.size(); ++kk) {
        check.y_[kk] += static_cast<std::uint64_t>(std::int64_t{row[kk]}) * check.x_[at];
      }
    }
    for (std::size_t j = 0; j < bias.size(); ++j) {
      check.bias_ += static_cast<std::uint64_t>(std::int64_t{bias[j]}) * check.x_[j];
    }
    return check;
  });
}

Result<std::int64_t> ProductCheck::first_wrong_row(ConstMatrix a, ConstMatrix sums) const {
  return base::guarded([&]() -> Result<std::int64_t> {
    constexpr DType kS8[] = {DType::s8}, kS32[] = {DType::s32};
    Status valid = op::first_failure(
        op::check_matrix("a", a, kS8), op::check_matrix("sums", sums, kS32),
        op::check_shape("a", a, a.rows, static_cast<std::int64_t>(y_.size())),
        op::check_shape("sums", sums, a.rows, static_cast<std::int64_t>(x_.size())));
    if (!valid.ok()) return valid;
    for (std::int64_t i = 0; i < a.rows; ++i) {
      if (dot<std::int32_t>(sums.row(i), x_) != dot<std::int8_t>(a.row(i), y_) + bias_) return i;
    }
    return std::int64_t{-1};
  });
}

}  // namespace tandem
