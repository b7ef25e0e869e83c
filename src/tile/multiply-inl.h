// SPDX-License-Identifier: Apache-2.0
//
// The micro-kernel: the innermost loop of every multiply. It keeps rows × vectors of chains in
// registers; each step of k loads a group of B, broadcasts one value of each row of A, and issues
// rows × vectors independent FMAs. Compiled once per target by simd_kernels.cc; start
// reading at multiply_rows().

#if defined(TANDEM_TILE_MULTIPLY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_TILE_MULTIPLY_INL_H_
#undef TANDEM_TILE_MULTIPLY_INL_H_
#else
#define TANDEM_TILE_MULTIPLY_INL_H_
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tile/contract.h"
#include "tile/operands-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::tile::HWY_NAMESPACE {

template <class Operand, int rows>
HWY_NOINLINE void multiply_rows(std::int64_t kc, const float* HWY_RESTRICT a,
                                const typename Operand::Element* HWY_RESTRICT b,
                                float* HWY_RESTRICT tile, bool first) {
  const FloatTag f;
  FloatVec chain[rows][kVectors];
#pragma GCC unroll 32
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 32
    for (int v = 0; v < kVectors; ++v) chain[r][v] = hn::Zero(f);
  }
  for (std::int64_t k = 0; k < kc; ++k) {
    FloatVec column[kVectors];
    Operand::load_group(b, column);
#pragma GCC unroll 32
    for (int r = 0; r < rows; ++r) {
      const FloatVec row = hn::Set(f, a[r * kKc]);
#pragma GCC unroll 32
      for (int v = 0; v < kVectors; ++v) chain[r][v] = hn::MulAdd(row, column[v], chain[r][v]);
    }
    ++a;
    b += kNr;
  }
  if (!first) {
#pragma GCC unroll 32
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 32
      for (int v = 0; v < kVectors; ++v) {
        chain[r][v] = hn::Add(hn::Load(f, tile + r * kNr + v * kLanes), chain[r][v]);
      }
    }
  }
#pragma GCC unroll 32
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 32
    for (int v = 0; v < kVectors; ++v) hn::Store(chain[r][v], f, tile + r * kNr + v * kLanes);
  }
}

template <class Operand>
using MultiplyRows = void (*)(std::int64_t, const float*, const typename Operand::Element*, float*,
                              bool);

template <class Operand, int... rows>
constexpr std::array<MultiplyRows<Operand>, sizeof...(rows)> multiply_variants(
    std::integer_sequence<int, rows...>) {
  return {multiply_rows<Operand, rows + 1>...};
}

/// Kernel::multiply. A variant per row count, so that edges cost what they compute.
template <class Operand>
void multiply(std::int64_t kc, const std::byte* a_panel, const std::byte* b_panel, std::byte* tile,
              int rows, bool first) {
  static constexpr auto kVariants =
      multiply_variants<Operand>(std::make_integer_sequence<int, kMr>());
  const MultiplyRows<Operand>* variants = kVariants.data();
  variants[rows - 1](kc, reinterpret_cast<const float*>(a_panel),
                     reinterpret_cast<const typename Operand::Element*>(b_panel),
                     reinterpret_cast<float*>(tile), first);
}

}  // namespace tandem::tile::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
