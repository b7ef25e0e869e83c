// SPDX-License-Identifier: Apache-2.0
//
// The micro-kernel: the innermost loop of every multiply. It keeps rows × vectors of chains in
// registers; each step of k loads a vector or more of B, broadcasts one value of each row of A, and
// issues rows × vectors independent FMAs. Compiled once per target by simd_kernels.cc; start
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
#include "tile/kernel.h"
#include "tile/operands-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::tile::HWY_NAMESPACE {

template <class Operand, int rows>
HWY_NOINLINE void multiply_rows(std::int64_t kc, const float* HWY_RESTRICT a,
                                const typename Operand::Element* HWY_RESTRICT b,
                                float* HWY_RESTRICT tile, bool first, Ahead ahead) {
  const std::byte* fetch = ahead.at;
  const std::int64_t step = ahead.step;
  const FloatTag f;
  FloatVec chain[rows][kVectors];
#pragma GCC unroll 32
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 32
    for (int v = 0; v < kVectors; ++v) chain[r][v] = hn::Zero(f);
  }
  for (std::int64_t left = kc; left > 0; left -= kChunk, a += rows * kChunk) {
    const std::int64_t steps = left < kChunk ? left : kChunk;
    for (std::int64_t k = 0; k < steps; k += Operand::kSteps) {
      // Of a pair the contract takes the odd step first.
#pragma GCC unroll 2
      for (int s = Operand::kSteps - 1; s >= 0; --s) {
        FloatVec column[kVectors];
        Operand::load_group(b, s, column);
#pragma GCC unroll 32
        for (int r = 0; r < rows; ++r) {
          const FloatVec row = hn::Set(f, a[r * kChunk + k + s]);
#pragma GCC unroll 32
          for (int v = 0; v < kVectors; ++v) chain[r][v] = hn::MulAdd(row, column[v], chain[r][v]);
        }
      }
      __builtin_prefetch(fetch);
      fetch += Operand::kSteps * step;
      b += Operand::kSteps * kNr;
    }
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
                              bool, Ahead);

template <class Operand, int... rows>
constexpr std::array<MultiplyRows<Operand>, sizeof...(rows)> multiply_variants(
    std::integer_sequence<int, rows...>) {
  return {multiply_rows<Operand, rows + 1>...};
}

/// Kernel::multiply. A variant per row count, so that edges cost what they compute.
template <class Operand>
void multiply(std::int64_t kc, const std::byte* a_panel, const std::byte* b_panel, std::byte* tile,
              int rows, bool first, Ahead ahead) {
  static constexpr auto kVariants = multiply_variants<Operand>(
      std::make_integer_sequence<int, rows_for(sizeof(typename Operand::Element))>());
  const MultiplyRows<Operand>* variants = kVariants.data();
  variants[rows - 1](kc, reinterpret_cast<const float*>(a_panel),
                     reinterpret_cast<const typename Operand::Element*>(b_panel),
                     reinterpret_cast<float*>(tile), first, ahead);
}

}  // namespace tandem::tile::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
