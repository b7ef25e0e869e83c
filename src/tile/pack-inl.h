// SPDX-License-Identifier: Apache-2.0
//
// Packing and storing: what surrounds the micro-kernel. pack_a widens rows, pack_b brings B into
// groups of nr columns from either layout (a transposition in registers when B is given N×K),
// store rounds a tile into C. Compiled once per target by simd_kernels.cc.

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
  }
}

/// One group from nr consecutive elements of a K×N row. Streamed past the caches: a panel is
/// written from front to back and not read soon, and without reading each line first packing
/// 4096 × 4096 f16 runs at 0.88 instead of 0.69 of memcpy (f32: 1.1 instead of 0.7; Zen 4).
template <class Operand>
HWY_INLINE void pack_group(const typename Operand::Element* from, typename Operand::Element* to) {
  if constexpr (Operand::source_column(1) == 1) {
    const hn::CappedTag<std::uint8_t, 32> bytes;  // groups are aligned to 32 bytes at least
    const auto* in = reinterpret_cast<const std::uint8_t*>(from);
    auto* out = reinterpret_cast<std::uint8_t*>(to);
    for (std::size_t at = 0; at < kNr * sizeof(*to); at += hn::Lanes(bytes)) {
      hn::Stream(hn::LoadU(bytes, in + at), bytes, out + at);
    }
  } else {
    constexpr int kStep = kLanes < 8 ? kLanes : 8;
    const hn::FixedTag<std::uint16_t, kStep> h;
    for (int pair = 0; pair < kNr; pair += 2 * kLanes) {
      for (int j = 0; j < kLanes; j += kStep) {
        const auto low = hn::LoadU(h, from + pair + j);
        const auto high = hn::LoadU(h, from + pair + j + kLanes);
        hn::Stream(hn::InterleaveLower(h, low, high), h, to + pair + 2 * j);
        hn::Stream(hn::InterleaveUpper(h, low, high), h, to + pair + 2 * j + kStep);
      }
    }
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

/// rows[0..8)[0..8) transposed to to[0..8)[0..8), rows of `to` being kNr apart.
HWY_INLINE void transpose_block(const std::uint16_t* const* rows, std::int64_t k,
                                std::uint16_t* to) {
  const hn::FixedTag<std::uint16_t, 8> h;
  const hn::FixedTag<std::uint32_t, 4> w;
  const hn::FixedTag<std::uint64_t, 2> d;
  hn::Vec<decltype(w)> pairs[8];  // [2i], [2i + 1]: k 0..3 and 4..7 of rows 2i and 2i + 1
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const auto even = hn::LoadU(h, rows[2 * i] + k);
    const auto odd = hn::LoadU(h, rows[2 * i + 1] + k);
    pairs[2 * i] = hn::BitCast(w, hn::InterleaveLower(h, even, odd));
    pairs[2 * i + 1] = hn::BitCast(w, hn::InterleaveUpper(h, even, odd));
  }
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    // Quads: rows 0..3 and 4..7, each for two values of k.
    const auto quad0 = hn::InterleaveLower(w, pairs[half], pairs[2 + half]);
    const auto quad1 = hn::InterleaveUpper(w, pairs[half], pairs[2 + half]);
    const auto quad2 = hn::InterleaveLower(w, pairs[4 + half], pairs[6 + half]);
    const auto quad3 = hn::InterleaveUpper(w, pairs[4 + half], pairs[6 + half]);
    std::uint16_t* out = to + half * 4 * kNr;
    const auto put = [&](auto quads, std::uint16_t* group)
                         HWY_ATTR { hn::StoreU(hn::BitCast(h, quads), h, group); };
    put(hn::InterleaveLower(d, hn::BitCast(d, quad0), hn::BitCast(d, quad2)), out);
    put(hn::InterleaveUpper(d, hn::BitCast(d, quad0), hn::BitCast(d, quad2)), out + kNr);
    put(hn::InterleaveLower(d, hn::BitCast(d, quad1), hn::BitCast(d, quad3)), out + 2 * kNr);
    put(hn::InterleaveUpper(d, hn::BitCast(d, quad1), hn::BitCast(d, quad3)), out + 3 * kNr);
  }
}

/// The same for 4 × 4 floats.
HWY_INLINE void transpose_block(const float* const* rows, std::int64_t k, float* to) {
  const hn::FixedTag<float, 4> f;
  const hn::FixedTag<double, 2> d;
  const auto row0 = hn::LoadU(f, rows[0] + k);
  const auto row1 = hn::LoadU(f, rows[1] + k);
  const auto row2 = hn::LoadU(f, rows[2] + k);
  const auto row3 = hn::LoadU(f, rows[3] + k);
  const auto low01 = hn::BitCast(d, hn::InterleaveLower(f, row0, row1));
  const auto high01 = hn::BitCast(d, hn::InterleaveUpper(f, row0, row1));
  const auto low23 = hn::BitCast(d, hn::InterleaveLower(f, row2, row3));
  const auto high23 = hn::BitCast(d, hn::InterleaveUpper(f, row2, row3));
  hn::StoreU(hn::BitCast(f, hn::InterleaveLower(d, low01, low23)), f, to);
  hn::StoreU(hn::BitCast(f, hn::InterleaveUpper(d, low01, low23)), f, to + kNr);
  hn::StoreU(hn::BitCast(f, hn::InterleaveLower(d, high01, high23)), f, to + 2 * kNr);
  hn::StoreU(hn::BitCast(f, hn::InterleaveUpper(d, high01, high23)), f, to + 3 * kNr);
}

/// Panel from N×K: a transposition. One cache line of each of a few rows at a time, because rows
/// of a power of two fall into the same cache set and would evict one another.
template <class Operand>
void pack_b_nk(const typename Operand::Element* b, std::int64_t stride, std::int64_t kc, int cols,
               typename Operand::Element* panel) {
  using Element = typename Operand::Element;
  constexpr int kBlock = 16 / sizeof(Element);
  constexpr int kLine = 64 / sizeof(Element);
  alignas(64) static constexpr Element kZeros[kLine] = {};
  const std::int64_t blocked = kc / kBlock * kBlock;
  for (std::int64_t line = 0; line < blocked; line += kLine) {
    const std::int64_t line_end = line + kLine < blocked ? line + kLine : blocked;
    for (int p = 0; p < kNr; p += kBlock) {
      const Element* rows[kBlock];
      for (int i = 0; i < kBlock; ++i) {
        const int column = Operand::source_column(p + i);
        rows[i] = column < cols ? b + column * stride + line : kZeros;
        // The next line of each row, too short a run for the hardware to see coming: 0.65 instead
        // of 0.52 of memcpy (4000 × 4000 f16, avx2, Zen 4).
        __builtin_prefetch(rows[i] + kLine);
      }
      for (std::int64_t k = line; k < line_end; k += kBlock) {
        transpose_block(rows, k - line, panel + k * kNr + p);
      }
    }
  }
  for (std::int64_t k = blocked; k < kc; ++k) {
    for (int p = 0; p < kNr; ++p) {
      const int column = Operand::source_column(p);
      panel[k * kNr + p] = column < cols ? b[column * stride + k] : Element{};
    }
  }
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
