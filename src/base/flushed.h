// SPDX-License-Identifier: Apache-2.0
//
// The step of the bf16 sum, of which docs/numerics.md has the definition: a fused multiply-add that
// takes subnormal operands for zeros and gives a zero in place of a subnormal result, as x86 does
// under MXCSR's DAZ and FTZ, and vdpbf16ps always. Here in plain arithmetic that does not depend on
// what the thread flushes. Used by the scalar kernel, the reference and tests.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace tandem::base {

/// Zero, of the same sign, for a subnormal.
[[nodiscard]] inline float flushed(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t kept = (bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits;
  return std::bit_cast<float>(kept);
}

/// Whether a rounded result may have to be flushed: it is not zero, and at most the smallest
/// normal, 2^-126.
[[nodiscard]] inline bool is_tiny(float rounded) {
  const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(rounded) & 0x7fffffffu;
  return magnitude - 1 < 0x00800000u;
}

/// `rounded`, which is fma(a, b, c) and is_tiny(), flushed. Whether a result is too small is
/// decided *after* rounding to 24 bits, with exponents unbounded: 2^-126 itself may be what
/// rounding to a multiple of 2^-149 has made of something that stays below it when rounded to 24
/// bits. So it is computed again, 2^64 times as large. Nothing overflows: of operands that large no
/// difference is that small.
[[nodiscard]] inline float flush_tiny(float a, float b, float c, float rounded) {
  const float scaled = std::fma(a * 0x1p64f, b, c * 0x1p64f);
  return std::abs(scaled) < 0x1p-62f ? std::copysign(0.0f, rounded) : rounded;
}

/// The step. `a`, `b` and `c` are no subnormals.
[[nodiscard]] inline float fma_flushed(float a, float b, float c) {
  const float rounded = std::fma(a, b, c);
  return is_tiny(rounded) ? flush_tiny(a, b, c, rounded) : rounded;
}

/// a + c, flushed: of normals a sum below 2^-126 is exact.
[[nodiscard]] inline float add_flushed(float a, float c) { return flushed(a + c); }

}  // namespace tandem::base
