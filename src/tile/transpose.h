// SPDX-License-Identifier: Apache-2.0
//
// Packing of B from N×K, where the steps of k of one column lie together: a transposition of
// elements of 2 or 4 bytes. (Of s8, the 2 or 4 steps that one instruction takes make an element.)
// 16-byte vectors in the compiler's own notation, since every instruction set has those and
// memory, not arithmetic, is the limit. Start reading at pack_columns().
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tandem::tile {

constexpr int kVectorBytes = 16;

template <class Element>
struct Lanes {
  using Vector [[gnu::vector_size(kVectorBytes)]] = Element;
};
template <class Element>
using Vector16 = typename Lanes<Element>::Vector;

template <class Element>
[[gnu::always_inline]] inline Vector16<Element> load16(const void* from) {
  Vector16<Element> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

/// Writes past the caches where the CPU can: a panel is written from front to back and not read
/// soon, and a cache would read each line first. `to` is 16-byte aligned. Followed by fence16().
template <class Vector>
[[gnu::always_inline]] inline void stream16(Vector v, void* to) {
#if defined(__SSE2__)
  _mm_stream_si128(static_cast<__m128i*>(to), (__m128i)v);
#else
  std::memcpy(to, &v, sizeof v);
#endif
}

/// Before streamed memory is handed to other threads.
inline void fence16() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/// Lanes of the lower (upper) halves of two vectors in turn.
template <class Element>
[[gnu::always_inline]] inline Vector16<Element> interleave_lower(Vector16<Element> a,
                                                                 Vector16<Element> b) {
  if constexpr (sizeof(Element) == 1) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  } else if constexpr (sizeof(Element) == 2) {
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  } else if constexpr (sizeof(Element) == 4) {
    return __builtin_shufflevector(a, b, 0, 4, 1, 5);
  } else {
    return __builtin_shufflevector(a, b, 0, 2);
  }
}
template <class Element>
[[gnu::always_inline]] inline Vector16<Element> interleave_upper(Vector16<Element> a,
                                                                 Vector16<Element> b) {
  if constexpr (sizeof(Element) == 1) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                   31);
  } else if constexpr (sizeof(Element) == 2) {
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  } else if constexpr (sizeof(Element) == 4) {
    return __builtin_shufflevector(a, b, 2, 6, 3, 7);
  } else {
    return __builtin_shufflevector(a, b, 1, 3);
  }
}

/// One round of a transposition by interleaving: rows i and i + half become rows 2i and 2i + 1.
/// log2(count) rounds with elements of the same size transpose count × count of them.
template <class Element, int count>
[[gnu::always_inline]] inline void interleave_round(Vector16<Element>* rows) {
  Vector16<Element> next[count];
#pragma GCC unroll 8
  for (int i = 0; i < count / 2; ++i) {
    next[2 * i] = interleave_lower<Element>(rows[i], rows[i + count / 2]);
    next[2 * i + 1] = interleave_upper<Element>(rows[i], rows[i + count / 2]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < count; ++i) rows[i] = next[i];
}

/// `steps` elements of each of nr columns to a panel: group k holds element k of every column.
/// columns[p] is the column at position p of the group, null for one beyond N (zeros).
///
/// A cache line of each column at a time: columns of a power of two fall into the same cache set
/// and would evict one another. Through a stage in L1, so that whole lines are streamed.
template <class Element, int nr>
void pack_columns(const std::byte* const* columns, std::int64_t steps, std::byte* panel) {
  constexpr int kBlock = kVectorBytes / static_cast<int>(sizeof(Element));
  constexpr int kLine = 64 / static_cast<int>(sizeof(Element));
  static_assert(nr % kBlock == 0);
  alignas(64) static constexpr std::byte kZeros[64] = {};
  alignas(64) Element stage[kLine * nr];
  for (std::int64_t line = 0; line < steps; line += kLine) {
    const std::int64_t count = steps - line < kLine ? steps - line : kLine;
    for (int p = 0; p < nr; p += kBlock) {
      alignas(64) std::byte edge[kBlock][64];
      const std::byte* from[kBlock];
      for (int i = 0; i < kBlock; ++i) {
        const std::byte* const column = columns[p + i];
        from[i] = column == nullptr ? kZeros : column + line * static_cast<int>(sizeof(Element));
        // The next line of each column, too short a run for the hardware to see coming.
        __builtin_prefetch(from[i] + 64);
        if (count == kLine || column == nullptr) continue;
        std::memcpy(edge[i], from[i], static_cast<std::size_t>(count) * sizeof(Element));
        from[i] = edge[i];
      }
      for (int k = 0; k < count; k += kBlock) {
        Vector16<Element> rows[kBlock];
#pragma GCC unroll 8
        for (int i = 0; i < kBlock; ++i) {
          rows[i] = load16<Element>(from[i] + k * static_cast<int>(sizeof(Element)));
        }
#pragma GCC unroll 3
        for (int round = 1; round < kBlock; round *= 2) interleave_round<Element, kBlock>(rows);
#pragma GCC unroll 8
        for (int i = 0; i < kBlock; ++i) std::memcpy(stage + (k + i) * nr + p, &rows[i], 16);
      }
    }
    std::byte* const to = panel + line * nr * static_cast<std::int64_t>(sizeof(Element));
    const auto* const staged = reinterpret_cast<const std::byte*>(stage);
    for (std::int64_t at = 0; at < count * nr * static_cast<std::int64_t>(sizeof(Element));
         at += kVectorBytes) {
      stream16(load16<std::uint8_t>(staged + at), to + at);
    }
  }
}

}  // namespace tandem::tile
