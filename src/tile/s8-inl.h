// SPDX-License-Identifier: Apache-2.0
//
// s8 × s8 → s32, exact: bytes become 16-bit lanes, and a multiply that adds neighbouring products
// into 32 bits takes two steps of k at once. No step has 16-bit sums, so nothing can saturate. Also
// the epilogue of all vector s8 kernels. Compiled once per target by simd_kernels.cc; start reading
// at multiply_s8_rows().

#if defined(TANDEM_TILE_S8_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_TILE_S8_INL_H_
#undef TANDEM_TILE_S8_INL_H_
#else
#define TANDEM_TILE_S8_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "tile/contract.h"
#include "tile/dequantise.h"
#include "tile/kernel.h"
#include "tile/operands-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::tile::HWY_NAMESPACE {

using SumTag = hn::RebindToSigned<FloatTag>;
using SumVec = hn::Vec<SumTag>;
using PairTag = hn::Repartition<std::int16_t, SumTag>;

/// k steps of one B group: what one instruction multiplies and adds.
constexpr int kS8Group = 2;
/// Groups in a chunk of the A panel: a cache line of 16-bit values per row.
constexpr std::int64_t kS8Chunk = 16;

#if HWY_TARGET == HWY_AVX3
constexpr int kS8Vectors = 2;
constexpr int kS8Rows = 12;  // 24 sums, 2 of B, a broadcast and a product: 28 of 32 registers
#elif HWY_TARGET == HWY_AVX2
constexpr int kS8Vectors = 2;
constexpr int kS8Rows = 6;  // 12 sums, 2 of B, a broadcast and a product: all 16 registers
#else
constexpr int kS8Vectors = 2;
constexpr int kS8Rows = 6;  // the multiply has two sums per vector here. Not measured.
#endif
constexpr int kS8Nr = kS8Vectors * kLanes;
/// Steps of a K-block: sums are loaded and stored a quarter as often as with 256. 0.90 instead of
/// 0.88 of the ceiling (128 × 4096 × 4096, AVX2, Zen 4).
constexpr std::int64_t kS8KBlock = 1024;

template <int rows>
HWY_NOINLINE void multiply_s8_rows(std::int64_t kc, const std::int32_t* HWY_RESTRICT a,
                                   const std::int8_t* HWY_RESTRICT b,
                                   std::int32_t* HWY_RESTRICT tile, bool first, Ahead ahead) {
  const SumTag s;
  const PairTag p;
  const hn::Rebind<std::int8_t, PairTag> bytes;
  const std::byte* fetch = ahead.at;
  SumVec sum[rows][kS8Vectors], spare[rows][kS8Vectors];
#pragma GCC unroll 32
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 32
    for (int v = 0; v < kS8Vectors; ++v) sum[r][v] = spare[r][v] = hn::Zero(s);
  }
  for (std::int64_t left = (kc + 1) / kS8Group; left > 0; left -= kS8Chunk, a += rows * kS8Chunk) {
    const std::int64_t groups = left < kS8Chunk ? left : kS8Chunk;
    for (std::int64_t g = 0; g < groups; ++g) {
      hn::Vec<PairTag> column[kS8Vectors];
#pragma GCC unroll 32
      for (int v = 0; v < kS8Vectors; ++v) {
        column[v] = hn::PromoteTo(p, hn::Load(bytes, b + v * 2 * kLanes));
      }
#pragma GCC unroll 32
      for (int r = 0; r < rows; ++r) {
        const auto pair = hn::BitCast(p, hn::Set(s, a[r * kS8Chunk + g]));
#pragma GCC unroll 32
        for (int v = 0; v < kS8Vectors; ++v) {
          sum[r][v] = hn::ReorderWidenMulAccumulate(s, pair, column[v], sum[r][v], spare[r][v]);
        }
      }
      __builtin_prefetch(fetch);
      fetch += kS8Group * ahead.step;
      b += kS8Group * kS8Nr;
    }
  }
#pragma GCC unroll 32
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 32
    for (int v = 0; v < kS8Vectors; ++v) {
      std::int32_t* const to = tile + r * kS8Nr + v * kLanes;
      SumVec total = hn::RearrangeToOddPlusEven(sum[r][v], spare[r][v]);
      if (!first) total = hn::Add(total, hn::Load(s, to));
      hn::Store(total, s, to);
    }
  }
}

using MultiplyS8Rows = void (*)(std::int64_t, const std::int32_t*, const std::int8_t*,
                                std::int32_t*, bool, Ahead);

template <int... rows>
constexpr std::array<MultiplyS8Rows, sizeof...(rows)> multiply_s8_variants(
    std::integer_sequence<int, rows...>) {
  return {multiply_s8_rows<rows + 1>...};
}

/// Kernel::multiply.
inline void multiply_s8(std::int64_t kc, const std::byte* a_panel, const std::byte* b_panel,
                        std::byte* tile, int rows, bool first, Ahead ahead) {
  static constexpr auto kVariants =
      multiply_s8_variants(std::make_integer_sequence<int, kS8Rows>());
  const MultiplyS8Rows* variants = kVariants.data();
  variants[rows - 1](kc, reinterpret_cast<const std::int32_t*>(a_panel),
                     reinterpret_cast<const std::int8_t*>(b_panel),
                     reinterpret_cast<std::int32_t*>(tile), first, ahead);
}

/// Kernel::pack_a: 16-bit values; an odd last step is followed by a zero.
inline void pack_a_s8(const std::byte* const* rows, int row_count, std::int64_t kc,
                      std::byte* panel) {
  constexpr std::int64_t kSteps = kS8Group * kS8Chunk;
  const PairTag p;
  const hn::Rebind<std::int8_t, PairTag> bytes;
  constexpr int kStep = 2 * kLanes;
  for (int r = 0; r < row_count; ++r) {
    const auto* from = reinterpret_cast<const std::int8_t*>(rows[r]);
    auto* to = reinterpret_cast<std::int16_t*>(panel) + r * kSteps;
    std::int64_t k = 0;
    for (; k + kSteps <= kc; k += kSteps, to += row_count * kSteps) {
#pragma GCC unroll 4
      for (int i = 0; i < kSteps; i += kStep) {
        hn::StoreU(hn::PromoteTo(p, hn::LoadU(bytes, from + k + i)), p, to + i);
      }
    }
    for (; k < kc; ++k) *to++ = from[k];
    if (kc % kS8Group != 0) *to = 0;
  }
}

/// `count` accumulators of one row, from column 0 of the tile on, to type `type`.
template <DType type>
void dequantise_row(const std::int32_t* sums, int count, const Dequantisation& factors,
                    const float* row_scale, std::byte* to) {
  const SumTag s;
  const FloatTag f;
  constexpr int kBytes = type == DType::s8 ? 1 : type == DType::f16 || type == DType::bf16 ? 2 : 4;
  int j = 0;
  for (; j + kLanes <= count; j += kLanes, to += kLanes * kBytes) {
    SumVec sum = hn::Load(s, sums + j);
    if (factors.bias != nullptr) sum = hn::Add(sum, hn::LoadU(s, factors.bias + j));
    if constexpr (type == DType::s32) {
      hn::StoreU(sum, s, reinterpret_cast<std::int32_t*>(to));
    } else {
      FloatVec value = hn::Mul(hn::ConvertTo(f, sum), hn::LoadU(f, factors.scale + j));
      if (row_scale != nullptr) value = hn::Mul(value, hn::Set(f, *row_scale));
      if constexpr (type == DType::s8) {
        value = hn::Mul(value, hn::LoadU(f, factors.requantise + j));
        value = hn::IfThenZeroElse(hn::IsNaN(value), value);
        value = hn::Min(hn::Max(value, hn::Set(f, -128.0F)), hn::Set(f, 127.0F));
        const hn::Rebind<std::int8_t, SumTag> bytes;
        hn::StoreU(hn::DemoteTo(bytes, hn::NearestInt(value)), bytes,
                   reinterpret_cast<std::int8_t*>(to));
      } else {
        if (factors.saturate && type != DType::f32) {
          const FloatVec most = hn::Set(f, largest_finite(type));
          const FloatVec bounded = hn::Min(hn::Max(value, hn::Neg(most)), most);
          value = hn::IfThenElse(hn::IsNaN(value), value, bounded);
        }
        narrow<type>(value, to);
      }
    }
  }
  for (; j < count; ++j, to += kBytes) {
    const std::int32_t bias = factors.bias == nullptr ? 0 : factors.bias[j];
    dequantise_element(wrapping_add(sums[j], bias), factors, j, row_scale, type, to);
  }
}

/// Kernel::dequantise.
inline void dequantise_s8(const std::byte* tile, int rows, int cols, const Dequantisation& factors,
                          const float* row_scale, DType type, std::byte* to, std::int64_t pitch) {
  const auto each_row = [&](auto dequantise) {
    for (int r = 0; r < rows; ++r) {
      dequantise(reinterpret_cast<const std::int32_t*>(tile) + r * kS8Nr, cols, factors,
                 row_scale == nullptr ? nullptr : row_scale + r, to + r * pitch);
    }
  };
  switch (type) {
    case DType::f16:
      return each_row(dequantise_row<DType::f16>);
    case DType::bf16:
      return each_row(dequantise_row<DType::bf16>);
    case DType::f32:
      return each_row(dequantise_row<DType::f32>);
    case DType::s8:
      return each_row(dequantise_row<DType::s8>);
    case DType::s32:
      return each_row(dequantise_row<DType::s32>);
  }
}

template <class Operand>
float quantise_as(const std::byte* from, std::int64_t count, std::int8_t* to) {
  const auto* const row = reinterpret_cast<const typename Operand::Element*>(from);
  const FloatTag f;
  const WordTag w;
  const std::int64_t whole = count / kLanes * kLanes;
  const auto magnitude = [&](std::int64_t k)
                             HWY_ATTR { return hn::BitCast(w, hn::Abs(Operand::widen(row + k))); };
  auto most = hn::Zero(w);
  for (std::int64_t k = 0; k < whole; k += kLanes) most = hn::Max(most, magnitude(k));
  std::uint32_t largest = hn::GetLane(hn::MaxOfLanes(w, most));
  for (std::int64_t k = whole; k < count; ++k) {
    largest = std::max(largest, magnitude_bits(Operand::kType, from, k));
  }
  const float scale = quantisation_scale(largest);
  if (!(scale > 0) || largest == 0) {
    std::memset(to, 0, static_cast<std::size_t>(count));
    return scale;
  }
  const hn::Rebind<std::int8_t, SumTag> bytes;
  const FloatVec divisor = hn::Set(f, scale), limit = hn::Set(f, 127.0F);
  for (std::int64_t k = 0; k < whole; k += kLanes) {
    const FloatVec q = hn::Round(hn::Div(Operand::widen(row + k), divisor));
    const auto bounded = hn::ConvertTo(SumTag(), hn::Min(hn::Max(q, hn::Neg(limit)), limit));
    hn::StoreU(hn::DemoteTo(bytes, bounded), bytes, to + k);
  }
  for (std::int64_t k = whole; k < count; ++k) to[k] = quantised(Operand::kType, from, k, scale);
  return scale;
}

/// Kernel::quantise.
inline float quantise_s8(DType type, const std::byte* from, std::int64_t count, std::int8_t* to) {
  if (type == DType::f16) return quantise_as<F16Operand>(from, count, to);
  if (type == DType::bf16) return quantise_as<Bf16Operand>(from, count, to);
  return quantise_as<F32Operand>(from, count, to);
}

}  // namespace tandem::tile::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
