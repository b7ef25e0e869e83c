// SPDX-License-Identifier: Apache-2.0
//
// Packing of B into groups: for each group of `group` steps of k, nr columns of `group`
// neighbouring elements, so that one load feeds an instruction that adds along k. The same for
// every target: s8 in groups of 2, 4 or 8, bf16 in pairs. Start reading at pack_b_groups().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tandem/types.h"
#include "tile/transpose.h"

namespace tandem::tile {

/// One group from K×N: `group` rows of nr elements, `stride` apart, are interleaved.
template <class Element, int group, int nr>
void pack_group_kn(const std::byte* b, std::int64_t stride, std::byte* to) {
  constexpr int kBytes = sizeof(Element);
  constexpr int kStep = kVectorBytes / kBytes;
  if constexpr (nr % kStep != 0 || group * kBytes > 4) {
    for (int j = 0; j < nr; ++j) {
      for (int s = 0; s < group; ++s, to += kBytes) {
        std::memcpy(to, b + (s * stride + j) * kBytes, kBytes);
      }
    }
  } else {
    using Elements = Vector16<Element>;
    using Pairs = Vector16<std::uint16_t>;  // of bytes, where there are four
#pragma GCC unroll 4
    for (int j = 0; j < nr; j += kStep, to += group * kVectorBytes) {
      Elements low[group / 2], high[group / 2];
#pragma GCC unroll 2
      for (int s = 0; s < group / 2; ++s) {
        const Elements even = load16<Element>(b + (2 * s * stride + j) * kBytes);
        const Elements odd = load16<Element>(b + ((2 * s + 1) * stride + j) * kBytes);
        low[s] = interleave_lower<Element>(even, odd);
        high[s] = interleave_upper<Element>(even, odd);
      }
      if constexpr (group == 2) {
        stream16(low[0], to);
        stream16(high[0], to + kVectorBytes);
      } else {
        const auto pairs = [](Elements v) { return (Pairs)v; };
        const Pairs l0 = pairs(low[0]), l1 = pairs(low[1]), h0 = pairs(high[0]),
                    h1 = pairs(high[1]);
        stream16(interleave_lower<std::uint16_t>(l0, l1), to);
        stream16(interleave_upper<std::uint16_t>(l0, l1), to + kVectorBytes);
        stream16(interleave_lower<std::uint16_t>(h0, h1), to + 2 * kVectorBytes);
        stream16(interleave_upper<std::uint16_t>(h0, h1), to + 3 * kVectorBytes);
      }
    }
  }
}

/// Panel from K×N. Groups with missing rows or columns are completed with zeros first.
template <class Element, int group, int nr>
void pack_panel_kn(const std::byte* b, std::int64_t stride, std::int64_t kc, int cols,
                   std::byte* panel) {
  constexpr int kBytes = sizeof(Element);
  constexpr int kGroupBytes = group * nr * kBytes;
  std::byte edge[kGroupBytes] = {};
  for (std::int64_t k = 0; k < kc; k += group, panel += kGroupBytes) {
    const auto steps = std::min<std::int64_t>(group, kc - k);
    if (steps == group && cols == nr) {
      pack_group_kn<Element, group, nr>(b + k * stride * kBytes, stride, panel);
      continue;
    }
    if (steps < group) std::memset(edge, 0, sizeof edge);
    for (std::int64_t s = 0; s < steps; ++s) {
      std::memcpy(edge + s * nr * kBytes, b + (k + s) * stride * kBytes,
                  static_cast<std::size_t>(cols) * kBytes);
    }
    pack_group_kn<Element, group, nr>(edge, nr, panel);
  }
}

/// Panel from N×K: `group` neighbouring elements of a column travel as one.
template <class Element, int group, int nr>
void pack_panel_nk(const std::byte* b, std::int64_t stride, std::int64_t kc, int cols,
                   std::byte* panel) {
  constexpr int kBytes = sizeof(Element);
  constexpr int kWordBytes = group * kBytes;  // of a column in a group
  const std::int64_t whole = kc / group;
  if constexpr (kWordBytes == 8 || nr % (kVectorBytes / kWordBytes) != 0) {
    for (std::int64_t g = 0; g < whole; ++g) {
      for (int j = 0; j < nr; ++j) {
        std::byte* const to = panel + (g * nr + j) * kWordBytes;
        if (j < cols) std::memcpy(to, b + j * stride * kBytes + g * kWordBytes, kWordBytes);
        if (j >= cols) std::memset(to, 0, kWordBytes);
      }
    }
  } else {
    using Word = std::conditional_t<kWordBytes == 2, std::uint16_t, std::uint32_t>;
    const std::byte* columns[nr];
    for (int j = 0; j < nr; ++j) columns[j] = j < cols ? b + j * stride * kBytes : nullptr;
    pack_columns<Word, nr>(columns, whole, panel);
  }
  if (whole * group == kc) return;
  std::byte* const last = panel + whole * kWordBytes * nr;
  std::memset(last, 0, kWordBytes * nr);
  for (int j = 0; j < cols; ++j) {
    std::memcpy(last + j * kWordBytes, b + j * stride * kBytes + whole * kWordBytes,
                static_cast<std::size_t>((kc - whole * group) * kBytes));
  }
}

/// Kernel::pack_b for groups of `group` steps and panels of `nr` columns.
template <class Element, int group, int nr>
void pack_b_groups(const std::byte* b, std::int64_t stride, BLayout layout, std::int64_t kc,
                   int cols, std::byte* panel) {
  if (layout == BLayout::kn) {
    pack_panel_kn<Element, group, nr>(b, stride, kc, cols, panel);
  } else {
    pack_panel_nk<Element, group, nr>(b, stride, kc, cols, panel);
  }
  fence16();
}

/// The same of s8.
template <int group, int nr>
constexpr auto pack_b_s8 = pack_b_groups<std::uint8_t, group, nr>;

}  // namespace tandem::tile
