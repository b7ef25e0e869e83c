// SPDX-License-Identifier: Apache-2.0
//
// Packing of s8 B into groups: for each group of `group` steps of k, nr columns of `group`
// neighbouring bytes, so that one load feeds an instruction that adds along k. Plain byte moves,
// the same for every target; the compiler turns the inner loops into words.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tandem/types.h"

namespace tandem::tile {

/// One group from K×N: `steps` rows of `cols` bytes, `stride` apart.
template <int group, int nr>
void pack_group_kn(const std::byte* b, std::int64_t stride, int steps, int cols, std::byte* to) {
  if (steps == group && cols == nr) {
    for (int j = 0; j < nr; ++j) {
      for (int s = 0; s < group; ++s) to[j * group + s] = b[s * stride + j];
    }
    return;
  }
  std::memset(to, 0, static_cast<std::size_t>(group * nr));
  for (int s = 0; s < steps; ++s) {
    for (int j = 0; j < cols; ++j) to[j * group + s] = b[s * stride + j];
  }
}

/// Panel from N×K. One cache line of a column at a time: columns of a power of two fall into the
/// same cache set and would evict one another.
template <int group, int nr>
void pack_panel_nk(const std::byte* b, std::int64_t stride, std::int64_t kc, int cols,
                   std::byte* panel) {
  constexpr std::int64_t kLine = 64;
  const std::int64_t whole = kc / group * group;
  if (cols < nr || whole < kc) {
    std::memset(panel, 0, static_cast<std::size_t>((kc + group - 1) / group * group * nr));
  }
  for (std::int64_t line = 0; line < whole; line += kLine) {
    const std::int64_t end = std::min(line + kLine, whole);
    for (int j = 0; j < cols; ++j) {
      for (std::int64_t k = line; k < end; k += group) {
        std::memcpy(panel + k * nr + j * group, b + j * stride + k, group);
      }
    }
  }
  for (int j = 0; j < cols; ++j) {
    for (std::int64_t k = whole; k < kc; ++k) {
      panel[whole * nr + j * group + (k - whole)] = b[j * stride + k];
    }
  }
}

/// Kernel::pack_b for groups of `group` steps and panels of `nr` columns.
template <int group, int nr>
void pack_b_s8(const std::byte* b, std::int64_t stride, BLayout layout, std::int64_t kc, int cols,
               std::byte* panel) {
  if (layout == BLayout::nk) {
    pack_panel_nk<group, nr>(b, stride, kc, cols, panel);
    return;
  }
  for (std::int64_t k = 0; k < kc; k += group, panel += group * nr) {
    const int steps = static_cast<int>(std::min<std::int64_t>(group, kc - k));
    pack_group_kn<group, nr>(b + k * stride, stride, steps, cols, panel);
  }
}

}  // namespace tandem::tile
