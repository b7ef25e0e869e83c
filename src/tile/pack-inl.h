// SPDX-License-Identifier: Apache-2.0
//
// Packing and storing: what surrounds the micro-kernel. pack_a widens rows, pack_b brings B into
// groups of nr columns from either layout (a transposition in registers when B is given N×K; bf16,
// whose groups are of two steps: pack_groups.h), store rounds a tile into C. Compiled once per
// target by simd_kernels.cc.

#if defined(TANDEM_TILE_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_TILE_PACK_INL_H_
#undef TANDEM_TILE_PACK_INL_H_
#else
#define TANDEM_TILE_PACK_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <hwy/cache_control.h>

#include "tile/contract.h"
#include "tile/multiply-inl.h"
#include "tile/operands-inl.h"
#include "tile/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::tile::HWY_NAMESPACE {

/// Kernel::pack_a.
template <class Operand>
void pack_a(const std::byte* const* rows, int row_count, std::int64_t kc, std::byte* panel) {
  using Element = typename Operand::Element;
  const FloatTag f;
  const std::int64_t whole = kc / kChunk * kChunk;
  for (int r = 0; r < row_count; ++r) {
    const std::byte* from = rows[r];
    float* to = reinterpret_cast<float*>(panel) + r * kChunk;
    for (std::int64_t k = 0; k < whole; k += kChunk, to += row_count * kChunk) {
#pragma GCC unroll 4
      for (int i = 0; i < kChunk; i += kLanes) {
        hn::Store(Operand::widen(reinterpret_cast<const Element*>(from) + k + i), f, to + i);
      }
    }
    for (std::int64_t k = whole; k < kc; ++k) {
      *to++ =
          base::load_element(Operand::kType, from + k * static_cast<std::int64_t>(sizeof(Element)));
    }
    if (kc % Operand::kSteps != 0) *to = 0;  // completes the last group, as B's
  }
}

/// One group from nr consecutive elements of a K×N row. Streamed past the caches: a panel is
/// written from front to back and not read soon, and without reading each line first packing
/// 4096 × 4096 f16 runs at 0.88 instead of 0.69 of memcpy (f32: 1.1 instead of 0.7; Zen 4).
template <class Operand>
HWY_INLINE void pack_group(const typename Operand::Element* from, typename Operand::Element* to) {
  const hn::CappedTag<std::uint8_t, 32> bytes;  // groups are aligned to 32 bytes at least
  const auto* in = reinterpret_cast<const std::uint8_t*>(from);
  auto* out = reinterpret_cast<std::uint8_t*>(to);
  for (std::size_t at = 0; at < kNr * sizeof(*to); at += hn::Lanes(bytes)) {
    hn::Stream(hn::LoadU(bytes, in + at), bytes, out + at);
  }
}

/// Panel from K×N.
template <class Operand>
void pack_b_kn(const typename Operand::Element* b, std::int64_t stride, std::int64_t kc, int cols,
               typename Operand::Element* panel) {
  if (cols == kNr) {
    for (std::int64_t k = 0; k < kc; ++k) pack_group<Operand>(b + k * stride, panel + k * kNr);
  } else {
    typename Operand::Element group[kNr] = {};
    for (std::int64_t k = 0; k < kc; ++k) {
      std::memcpy(group, b + k * stride, static_cast<std::size_t>(cols) * sizeof(*b));
      pack_group<Operand>(group, panel + k * kNr);
    }
  }
  hwy::FlushStream();  // before the panel is handed to other threads
}

/// Panel from N×K.
template <class Operand>
void pack_b_nk(const typename Operand::Element* b, std::int64_t stride, std::int64_t kc, int cols,
               typename Operand::Element* panel) {
  using Bits = std::conditional_t<sizeof(*b) == 2, std::uint16_t, std::uint32_t>;
  const std::byte* columns[kNr];
  for (int p = 0; p < kNr; ++p) {
    columns[p] = p < cols ? reinterpret_cast<const std::byte*>(b + p * stride) : nullptr;
  }
  pack_columns<Bits, kNr>(columns, kc, reinterpret_cast<std::byte*>(panel));
  fence16();
}

/// Kernel::pack_b.
template <class Operand>
void pack_b(const std::byte* b, std::int64_t stride, BLayout layout, std::int64_t kc, int cols,
            std::byte* panel) {
  using Element = typename Operand::Element;
  const auto* from = reinterpret_cast<const Element*>(b);
  auto* to = reinterpret_cast<Element*>(panel);
  if (layout == BLayout::kn) {
    pack_b_kn<Operand>(from, stride, kc, cols, to);
  } else {
    pack_b_nk<Operand>(from, stride, kc, cols, to);
  }
}

template <DType type>
void store_as(const float* tile, int rows, int cols, std::byte* to, std::int64_t pitch) {
  constexpr int kBytes = type == DType::f32 ? 4 : 2;
  const FloatTag f;
  for (int r = 0; r < rows; ++r, tile += kNr, to += pitch) {
    int j = 0;
    for (; j + kLanes <= cols; j += kLanes) {
      narrow<type>(hn::Load(f, tile + j), to + j * kBytes);
    }
    for (; j < cols; ++j) base::store_element(type, tile[j], to + j * kBytes);
  }
}

/// Kernel::store.
inline void store(const std::byte* tile, int rows, int cols, DType type, std::byte* to,
                  std::int64_t pitch) {
  const auto* from = reinterpret_cast<const float*>(tile);
  if (type == DType::f32) {
    store_as<DType::f32>(from, rows, cols, to, pitch);
  } else if (type == DType::f16) {
    store_as<DType::f16>(from, rows, cols, to, pitch);
  } else {
    store_as<DType::bf16>(from, rows, cols, to, pitch);
  }
}

}  // namespace tandem::tile::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
