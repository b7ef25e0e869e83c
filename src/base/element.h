// SPDX-License-Identifier: Apache-2.0
//
// Element: one number of a matrix, widened to f32 and rounded back. The only scalar definition of
// the f16 and bf16 conversions; the vector kernels must agree with it on every bit pattern. Used
// by the scalar kernel, the reference, generators, tests and the edges of the vector loops.
// Branch-free, so that compilers vectorise loops over it, and made so that no result depends on
// whether the thread flushes f32 subnormals to zero.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tandem/types.h"

namespace tandem::base {

[[nodiscard]] inline float widen_f16(std::uint16_t half) {
  const std::uint32_t magnitude = half & 0x7fffu;
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  // Exponent bias 15 becomes 127; infinities and NaN (exponent 31) move on to exponent 255.
  const std::uint32_t bias = magnitude >= 0x7c00u ? (255u - 31u) << 23 : (127u - 15u) << 23;
  const std::uint32_t normal = (magnitude << 13) + bias;
  // 0.5 has an ulp of 2^-24, the unit of f16 subnormals: (0.5 + m ulps) - 0.5 = m · 2^-24, exact.
  const float subnormal = std::bit_cast<float>(0x3f000000u + magnitude) - 0.5f;
  const std::uint32_t bits = magnitude < 0x0400u ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  return std::bit_cast<float>(bits | sign);
}

/// Round to nearest, ties to even; overflow gives infinity; a NaN stays a (quiet) NaN.
[[nodiscard]] inline std::uint16_t narrow_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  // Half an ulp, less one when the kept part is even: ties go to even. A carry out of the mantissa
  // raises the exponent, out of the largest exponent it makes infinity: both are what IEEE asks.
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  const std::uint32_t normal = (magnitude - ((127u - 15u) << 23) + 0xfffu + odd) >> 13;
  // Below 2^-14, adding 0.5 makes the hardware round at 2^-24, the unit of f16 subnormals.
  // The bound keeps the operand of the unused branch finite.
  const std::uint32_t small = magnitude < 0x38800000u ? magnitude : 0u;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(small) + 0.5f) - 0x3f000000u;
  std::uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x477ff000u ? 0x7c00u : half;  // 65520 and above round to infinity
  half = magnitude > 0x7f800000u ? 0x7e00u : half;
  return static_cast<std::uint16_t>(half | sign);
}

[[nodiscard]] inline float widen_bf16(std::uint16_t upper) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(upper) << 16);
}

/// Round to nearest, ties to even; overflow gives infinity; a NaN stays a (quiet) NaN.
[[nodiscard]] inline std::uint16_t narrow_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const std::uint32_t quiet = bits | 0x400000u;
  return static_cast<std::uint16_t>(((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded) >> 16);
}

/// The element at `from`, which need not be aligned, as f32. Float types only.
[[nodiscard]] inline float load_element(DType type, const std::byte* from) {
  if (type == DType::f32) {
    float value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  return type == DType::f16 ? widen_f16(bits) : widen_bf16(bits);
}

/// The element at `from`, which need not be aligned, as a double, of any type; exact.
[[nodiscard]] inline double value_of(DType type, const std::byte* from) {
  if (type == DType::s8) return static_cast<double>(static_cast<std::int8_t>(*from));
  if (type != DType::s32) return static_cast<double>(load_element(type, from));
  std::int32_t value = 0;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

/// Rounds `value` to `type` and writes it to `to`, which need not be aligned. Float types only.
inline void store_element(DType type, float value, std::byte* to) {
  if (type == DType::f32) {
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  const std::uint16_t bits = type == DType::f16 ? narrow_f16(value) : narrow_bf16(value);
  std::memcpy(to, &bits, sizeof(bits));
}

}  // namespace tandem::base
