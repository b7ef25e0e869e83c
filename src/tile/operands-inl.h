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

/// A B group is read in pairs of vectors: load_pair() gives columns [0, kLanes) and [kLanes,
/// 2 * kLanes) of the 2 * kLanes elements at `from`. source_column() says which column of those
/// packing must put at a position.

struct F32Operand {
  using Element = float;
  static constexpr DType kType = DType::f32;
  static constexpr int source_column(int position) { return position; }

  static HWY_INLINE void load_pair(const Element* from, FloatVec& low, FloatVec& high) {
    const FloatTag f;
    low = hn::LoadU(f, from);
    high = hn::LoadU(f, from + kLanes);
  }
  static HWY_INLINE FloatVec widen(const Element* from) { return hn::LoadU(FloatTag(), from); }
};

struct F16Operand {
  using Element = std::uint16_t;
  static constexpr DType kType = DType::f16;
  static constexpr int source_column(int position) { return position; }

  static HWY_INLINE void load_pair(const Element* from, FloatVec& low, FloatVec& high) {
    low = widen(from);
    high = widen(from + kLanes);
  }
  static HWY_INLINE FloatVec widen(const Element* from) {
    const FloatTag f;
    const hn::Rebind<hwy::float16_t, FloatTag> h;
    return hn::PromoteTo(f, hn::LoadU(h, reinterpret_cast<const hwy::float16_t*>(from)));
  }
};

/// bf16 is the upper half of an f32. Columns j and j + kLanes share a 32-bit word, so that one
/// load, a shift and a mask widen two vectors: widening each by itself would also cost a shuffle
/// per vector, on ports that the FMAs need.
struct Bf16Operand {
  using Element = std::uint16_t;
  static constexpr DType kType = DType::bf16;
  static constexpr int source_column(int position) { return position % 2 * kLanes + position / 2; }

  static HWY_INLINE void load_pair(const Element* from, FloatVec& low, FloatVec& high) {
    const FloatTag f;
    const WordTag w;
    const auto words = hn::LoadU(w, reinterpret_cast<const std::uint32_t*>(from));
    low = hn::BitCast(f, hn::ShiftLeft<16>(words));
    high = hn::BitCast(f, hn::And(words, hn::Set(w, 0xffff0000u)));
  }
  static HWY_INLINE FloatVec widen(const Element* from) {
    const WordTag w;
    const hn::Rebind<std::uint16_t, WordTag> h;
    return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(w, hn::LoadU(h, from))));
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
