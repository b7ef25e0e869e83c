// SPDX-License-Identifier: Apache-2.0
//
// The bf16 sum in its plainest form: by pairs of steps of k, the odd one first, subnormals flushed
// by explicit arithmetic (base/flushed.h). It is the scalar kernel, and what a vector kernel falls
// back to where its CPU flushes by another rule.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/element.h"
#include "base/flushed.h"
#include "tile/kernel.h"

namespace tandem::tile {

/// Where an A panel of `rows` rows holds element (row, k).
constexpr std::int64_t a_index(int rows, int row, std::int64_t k) {
  return (k / kChunk * rows + row) * kChunk + k % kChunk;
}

/// Kernel::multiply of bf16, A in f32, B in pairs of k, nr columns. An odd kc was completed with
/// zeros by the packing. What the thread flushes by itself makes no difference.
template <int nr>
void multiply_pairs(std::int64_t kc, const std::byte* a_panel, const std::byte* b_panel,
                    std::byte* tile, int rows, bool first) {
  const auto* a = reinterpret_cast<const float*>(a_panel);
  auto* c = reinterpret_cast<float*>(tile);
  for (int r = 0; r < rows; ++r) {
    std::array<float, nr> chain{};
    for (std::int64_t k = 0; k < kc; k += 2) {
      for (int odd : {1, 0}) {
        const float x = base::flushed(a[a_index(rows, r, k + odd)]);
        for (int j = 0; j < nr; ++j) {
          const std::byte* const at = b_panel + (k * nr + 2 * j + odd) * 2;
          const float y = base::flushed(base::load_element(DType::bf16, at));
          float& sum = chain[static_cast<std::size_t>(j)];
          sum = base::fma_flushed(x, y, sum);
        }
      }
    }
    for (int j = 0; j < nr; ++j) {
      float& out = c[r * nr + j];
      const float sum = chain[static_cast<std::size_t>(j)];
      out = first ? sum : base::add_flushed(out, sum);
    }
  }
}

}  // namespace tandem::tile
