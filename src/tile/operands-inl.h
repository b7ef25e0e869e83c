// SPDX-License-Identifier: Apache-2.0
//
// Operands: how each element type enters and leaves f32 vectors. One policy per type says what a
// packed B group looks like and how the inner loop widens it; multiply-inl.h and pack-inl.h are
// written against the policies. Compiled once per target by simd_kernels.cc.

// Highway's per-target include guard: the header is seen once for every target.
#if defined(TANDEM_TILE_OPERANDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_TILE_OPERANDS_INL_H_
#undef TANDEM_TILE_OPERANDS_INL_H_
#else
#define TANDEM_TILE_OPERANDS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

#include "base/element.h"
#include "tandem/types.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::tile::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;
using WordTag = hn::RebindToUnsigned<FloatTag>;
constexpr int kLanes = HWY_LANES(float);

// Columns of the register block, in vectors. An FMA unit needs 8 independent chains to stay busy (4
// to 5 cycles of latency, two per cycle); the rest of the register file decides how often B and A
// are loaded. Figures are ratios to the FMA ceiling on Zen 4 with gcc 12, panels in L1.
#if HWY_TARGET == HWY_AVX3
// One vector, so that each broadcast is an FMA's memory operand and one widening serves all rows:
// 0.99 for all types. 12 rows × 2 vectors: 0.91 for f16, whose 512-bit widening takes FMA slots.
constexpr int kVectors = 1;
#elif HWY_TARGET == HWY_AVX2
// Broadcasts are instructions of their own, so each should serve two FMAs: 0.99. One: 0.90.
constexpr int kVectors = 2;
#else
constexpr int kVectors = 4;  // 24 chains of 4 lanes, 4 of B: 32 registers. Not measured.
#endif
constexpr int kNr = kVectors * kLanes;

/// Rows of the register block for elements of that size.
constexpr int rows_for(std::size_t element_bytes) {
  // AVX2 and NEON: all that the registers hold.
  if (HWY_TARGET != HWY_AVX3) return 6;
  // AVX-512: 24 would fit, but the A panel (a KiB per row) shares L1 with the B panel, which has to
  // stay there: 0.98 with 16 rows, 0.97 with 24 (288 × 2048 × 1024, f16 and bf16). B in f32 takes
  // half of L1 itself and comes from L2; then fewer, taller tiles are better: 0.91 and 0.94.
  return element_bytes == 2 ? 16 : 24;
}

/// An operand policy: a group of packed B holds kSteps steps of k; load_group() widens one of them
/// to f32 vectors, and widen() one vector of elements.

struct F32Operand {
  using Element = float;
  static constexpr DType kType = DType::f32;
  static constexpr int kSteps = 1;

  static HWY_INLINE FloatVec widen(const Element* from) { return hn::LoadU(FloatTag(), from); }
  static HWY_INLINE void load_group(const Element* from, int, FloatVec* columns) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) columns[v] = widen(from + v * kLanes);
  }
};

struct F16Operand {
  using Element = std::uint16_t;
  static constexpr DType kType = DType::f16;
  static constexpr int kSteps = 1;

  static HWY_INLINE FloatVec widen(const Element* from) {
    const FloatTag f;
    const hn::Rebind<hwy::float16_t, FloatTag> h;
    return hn::PromoteTo(f, hn::LoadU(h, reinterpret_cast<const hwy::float16_t*>(from)));
  }
  static HWY_INLINE void load_group(const Element* from, int, FloatVec* columns) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) columns[v] = widen(from + v * kLanes);
  }
};

/// bf16 is the upper half of an f32, and two steps of k share a 32-bit word of packed B: the odd
/// one above, which the contract takes first. A mask or a shift widens a vector, on ports that the
/// FMAs leave free.
struct Bf16Operand {
  using Element = std::uint16_t;
  static constexpr DType kType = DType::bf16;
  static constexpr int kSteps = 2;

  static HWY_INLINE FloatVec widen(const Element* from) {
    const WordTag w;
    const hn::Rebind<std::uint16_t, WordTag> h;
    return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(w, hn::LoadU(h, from))));
  }
  static HWY_INLINE void load_group(const Element* from, int step, FloatVec* columns) {
    const FloatTag f;
    const WordTag w;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const auto words = hn::LoadU(w, reinterpret_cast<const std::uint32_t*>(from) + v * kLanes);
      columns[v] = hn::BitCast(
          f, step == 0 ? hn::ShiftLeft<16>(words) : hn::And(words, hn::Set(w, 0xffff0000u)));
    }
  }
};

/// Rounds one vector to nearest even and writes it; `to` need not be aligned.
template <DType type>
HWY_INLINE void narrow(FloatVec value, std::byte* to) {
  const FloatTag f;
  if constexpr (type == DType::f32) {
    hn::StoreU(value, f, reinterpret_cast<float*>(to));
  } else if constexpr (type == DType::f16) {
    const hn::Rebind<hwy::float16_t, FloatTag> h;
    hn::StoreU(hn::DemoteTo(h, value), h, reinterpret_cast<hwy::float16_t*>(to));
  } else {
    // As base::narrow_bf16. Not the CPU's bf16 conversions: those flush subnormals.
    const WordTag w;
    const hn::Rebind<std::uint16_t, WordTag> h;
    const auto bits = hn::BitCast(w, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(w, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(w, 0x7fff)));
    const auto quiet = hn::Or(bits, hn::Set(w, 0x400000));
    const auto kept = hn::IfThenElse(hn::RebindMask(w, hn::IsNaN(value)), quiet, rounded);
    hn::StoreU(hn::TruncateTo(h, hn::ShiftRight<16>(kept)), h,
               reinterpret_cast<std::uint16_t*>(to));
  }
}

}  // namespace tandem::tile::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
