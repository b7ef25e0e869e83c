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

/// Kernel::pack_b for groups of `group` steps and panels of `nr` columns.
template <int group, int nr>
void pack_b_s8(const std::byte* b, std::int64_t stride, BLayout layout, std::int64_t kc, int cols,
               std::byte* panel) {
  for (std::int64_t k = 0; k < kc; k += group, panel += group * nr) {
    const int steps = static_cast<int>(std::min<std::int64_t>(group, kc - k));
    if (steps < group || cols < nr) std::memset(panel, 0, static_cast<std::size_t>(group * nr));
    if (layout == BLayout::kn && steps == group && cols == nr) {
      const std::byte* const rows = b + k * stride;
      for (int j = 0; j < nr; ++j) {
        for (int s = 0; s < group; ++s) panel[j * group + s] = rows[s * stride + j];
      }
    } else if (layout == BLayout::kn) {
      for (int s = 0; s < steps; ++s) {
        for (int j = 0; j < cols; ++j) panel[j * group + s] = b[(k + s) * stride + j];
      }
    } else if (steps == group) {
      for (int j = 0; j < cols; ++j) std::memcpy(panel + j * group, b + j * stride + k, group);
    } else {
      for (int j = 0; j < cols; ++j) {
        for (int s = 0; s < steps; ++s) panel[j * group + s] = b[j * stride + k + s];
      }
    }
  }
}

}  // namespace tandem::tile
