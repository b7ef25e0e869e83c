// SPDX-License-Identifier: Apache-2.0
//
// Packing of s8 B into groups: for each group of `group` steps of k, nr columns of `group`
// neighbouring bytes, so that one load feeds an instruction that adds along k. The same for every
// target. Start reading at pack_b_s8().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tandem/types.h"
#include "tile/transpose.h"

namespace tandem::tile {

/// One group from K×N: `group` rows of nr bytes, `stride` apart, are interleaved.
template <int group, int nr>
void pack_group_kn(const std::byte* b, std::int64_t stride, std::byte* to) {
  using Bytes = Vector16<std::uint8_t>;
  using Pairs = Vector16<std::uint16_t>;
  if constexpr (nr % kVectorBytes != 0 || group > 4) {
    for (int j = 0; j < nr; ++j) {
      for (int s = 0; s < group; ++s) to[j * group + s] = b[s * stride + j];
    }
  } else {
#pragma GCC unroll 4
    for (int j = 0; j < nr; j += kVectorBytes, to += group * kVectorBytes) {
      Pairs low[group / 2], high[group / 2];
#pragma GCC unroll 2
      for (int s = 0; s < group / 2; ++s) {
        const Bytes even = load16<std::uint8_t>(b + 2 * s * stride + j);
        const Bytes odd = load16<std::uint8_t>(b + (2 * s + 1) * stride + j);
        low[s] = (Pairs)interleave_lower<std::uint8_t>(even, odd);
        high[s] = (Pairs)interleave_upper<std::uint8_t>(even, odd);
      }
      if constexpr (group == 2) {
        stream16(low[0], to);
        stream16(high[0], to + kVectorBytes);
      } else {
        stream16(interleave_lower<std::uint16_t>(low[0], low[1]), to);
        stream16(interleave_upper<std::uint16_t>(low[0], low[1]), to + kVectorBytes);
        stream16(interleave_lower<std::uint16_t>(high[0], high[1]), to + 2 * kVectorBytes);
        stream16(interleave_upper<std::uint16_t>(high[0], high[1]), to + 3 * kVectorBytes);
      }
    }
  }
}

/// Panel from K×N. Groups with missing rows or columns are completed with zeros first.
template <int group, int nr>
void pack_panel_kn(const std::byte* b, std::int64_t stride, std::int64_t kc, int cols,
                   std::byte* panel) {
  std::byte edge[group * nr] = {};
  for (std::int64_t k = 0; k < kc; k += group, panel += group * nr) {
    const auto steps = std::min<std::int64_t>(group, kc - k);
    if (steps == group && cols == nr) {
      pack_group_kn<group, nr>(b + k * stride, stride, panel);
      continue;
    }
    if (steps < group) std::memset(edge, 0, sizeof edge);
    for (std::int64_t s = 0; s < steps; ++s) {
      std::memcpy(edge + s * nr, b + (k + s) * stride, static_cast<std::size_t>(cols));
    }
    pack_group_kn<group, nr>(edge, nr, panel);
  }
}

/// Panel from N×K: `group` neighbouring bytes of a column travel as one element.
template <int group, int nr>
void pack_panel_nk(const std::byte* b, std::int64_t stride, std::int64_t kc, int cols,
                   std::byte* panel) {
  const std::int64_t whole = kc / group;
  if constexpr (group == 8 || nr % (kVectorBytes / group) != 0) {
    for (std::int64_t k = 0; k < whole * group; k += group) {
      for (int j = 0; j < nr; ++j) {
        std::byte* const to = panel + k * nr + j * group;
        if (j < cols) std::memcpy(to, b + j * stride + k, group);
        if (j >= cols) std::memset(to, 0, group);
      }
    }
  } else {
    using Element = std::conditional_t<group == 2, std::uint16_t, std::uint32_t>;
    const std::byte* columns[nr];
    for (int j = 0; j < nr; ++j) columns[j] = j < cols ? b + j * stride : nullptr;
    pack_columns<Element, nr>(columns, whole, panel);
  }
  if (whole * group == kc) return;
  std::byte* const last = panel + whole * group * nr;
  std::memset(last, 0, group * nr);
  for (int j = 0; j < cols; ++j) {
    std::memcpy(last + j * group, b + j * stride + whole * group,
                static_cast<std::size_t>(kc - whole * group));
  }
}

/// Kernel::pack_b for groups of `group` steps and panels of `nr` columns.
template <int group, int nr>
void pack_b_s8(const std::byte* b, std::int64_t stride, BLayout layout, std::int64_t kc, int cols,
               std::byte* panel) {
  if (layout == BLayout::kn) {
    pack_panel_kn<group, nr>(b, stride, kc, cols, panel);
  } else {
    pack_panel_nk<group, nr>(b, stride, kc, cols, panel);
  }
  fence16();
}

}  // namespace tandem::tile
