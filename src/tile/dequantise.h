// SPDX-License-Identifier: Apache-2.0
//
// Between floats and s8, by the contract (docs/numerics.md): what the epilogue of an s8 multiply
// does to one accumulator, and how a row of floats becomes s8. The scalar definitions are here;
// the kernels' vector forms must equal them bit for bit.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/element.h"
#include "tandem/types.h"

namespace tandem::tile {

/// Factors of the columns of an output, one entry for every packed column (a multiple of nr).
struct Dequantisation {
  const std::int32_t* bias = nullptr;  ///< added to the accumulators, modulo 2^32; null = 0
  const float* scale = nullptr;        ///< not null unless the output is s32
  const float* requantise = nullptr;   ///< not null when the output is s8
  bool saturate = false;               ///< f16, bf16: the largest finite value instead of infinity

  /// The factors from column `col` on.
  [[nodiscard]] Dequantisation from(std::int64_t col) const {
    return {bias == nullptr ? nullptr : bias + col, scale == nullptr ? nullptr : scale + col,
            requantise == nullptr ? nullptr : requantise + col, saturate};
  }
};

/// Adds without undefined overflow: kernels may offset their sums and rely on arithmetic mod 2^32.
[[nodiscard]] inline std::int32_t wrapping_add(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}

/// The f32 value of one output; each product is rounded once.
[[nodiscard]] inline float dequantised(std::int32_t acc, float scale, const float* row_scale) {
  const float value = static_cast<float>(acc) * scale;
  return row_scale == nullptr ? value : value * *row_scale;
}

[[nodiscard]] constexpr float largest_finite(DType type) {
  return type == DType::f16 ? 65504.0F : 0x1.FEp127F;
}

/// round(value * factor) to s8, ties to even, clamped; a NaN becomes 0.
[[nodiscard]] inline std::int8_t requantised(float value, float factor) {
  const float scaled = value * factor;
  if (std::isnan(scaled)) return 0;
  const float bounded = std::fmin(std::fmax(scaled, -128.0F), 127.0F);
  return static_cast<std::int8_t>(std::nearbyint(bounded));
}

/// Writes the output of column `col` for an accumulator with its bias.
inline void dequantise_element(std::int32_t acc, const Dequantisation& factors, std::int64_t col,
                               const float* row_scale, DType type, std::byte* to) {
  if (type == DType::s32) {
    std::memcpy(to, &acc, sizeof acc);
    return;
  }
  float value = dequantised(acc, factors.scale[col], row_scale);
  if (type == DType::s8) {
    *reinterpret_cast<std::int8_t*>(to) = requantised(value, factors.requantise[col]);
    return;
  }
  if (factors.saturate && type != DType::f32) {
    const float largest = largest_finite(type);
    // Comparisons that a NaN fails: it stays a NaN.
    if (value > largest) value = largest;
    if (value < -largest) value = -largest;
  }
  base::store_element(type, value, to);
}

/// |x| of element k, as bits: their order is that of the values, with infinity and NaN on top.
[[nodiscard]] inline std::uint32_t magnitude_bits(DType type, const std::byte* from,
                                                  std::int64_t k) {
  const float x = base::load_element(type, from + static_cast<std::size_t>(k) * size_of(type));
  return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
}

/// The scale of a row whose largest magnitude has these bits. Not below the smallest number above
/// 0, which the quotient of up to 63 of those would round to 0: such a row is q = x / 2^-149,
/// exact.
[[nodiscard]] inline float quantisation_scale(std::uint32_t largest) {
  if (largest >= 0x7f800000u) return std::numeric_limits<float>::quiet_NaN();
  if (largest == 0) return 1.0F;
  return std::max(std::bit_cast<float>(largest) / 127.0F, std::numeric_limits<float>::denorm_min());
}

/// Element k over a scale above 0. |x / scale| may round to a little above 127 where the scale is
/// subnormal.
[[nodiscard]] inline std::int8_t quantised(DType type, const std::byte* from, std::int64_t k,
                                           float scale) {
  const float x = base::load_element(type, from + static_cast<std::size_t>(k) * size_of(type));
  const float q = std::nearbyint(x / scale);
  return static_cast<std::int8_t>(std::min(std::max(q, -127.0F), 127.0F));
}

/// Symmetric quantisation of a row of `count` floats of `type`: returns s = max|x| / 127, at least
/// 2^-149, and writes q = round(x / s), ties to even. A row of zeros has s = 1; a row with NaN or
/// infinity has s = NaN and q = 0, so that all its outputs are NaN.
[[nodiscard]] float quantise_row(DType type, const std::byte* from, std::int64_t count,
                                 std::int8_t* to);

}  // namespace tandem::tile
