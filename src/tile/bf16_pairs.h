// SPDX-License-Identifier: Apache-2.0
//
// The bf16 sum in its plainest form: by pairs of steps of k, the odd one first, subnormals flushed
// by explicit arithmetic (base/flushed.h). It is the scalar kernel, and what a vector kernel falls
// back to where its CPU flushes by another rule.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/element.h"
#include "base/float_environment.h"
#include "base/flushed.h"
#include "tile/kernel.h"

namespace tandem::tile {

/// Where an A panel of `rows` rows, widened to f32, holds element (row, k).
constexpr std::int64_t a_index(int rows, int row, std::int64_t k) {
  return (k / kChunk * rows + row) * kChunk + k % kChunk;
}

/// Kernel::multiply of bf16: a(row, k) is A as f32; B lies in pairs of k, nr columns. An odd kc was
/// completed with zeros by the packing. What the thread flushes by itself makes no difference.
template <int nr, class A>
void multiply_pairs(std::int64_t kc, const A& a, const std::byte* b_panel, std::byte* tile,
                    int rows, bool first) {
  auto* c = reinterpret_cast<float*>(tile);
  for (int r = 0; r < rows; ++r) {
    std::array<float, nr> chain{};
    for (std::int64_t k = 0; k < kc; k += 2) {
      for (int odd : {1, 0}) {
        const float x = base::flushed(a(r, k + odd));
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

#if defined(__aarch64__)
/// `multiply()`, which makes the tile by instructions that flush as Arm does: before rounding. A
/// tile in which anything was flushed, which real weights hardly know, is made again by the
/// contract's own arithmetic.
template <int mr, int nr, class A, class Multiply>
void multiply_and_mend(std::int64_t kc, const A& a, const std::byte* b_panel, std::byte* tile,
                       int rows, bool first, const Multiply& multiply) {
  std::array<std::byte, mr * nr * sizeof(float)> before;
  const std::size_t bytes = static_cast<std::size_t>(rows * nr) * sizeof(float);
  if (!first) std::memcpy(before.data(), tile, bytes);
  const base::FlushedResults flushed;
  multiply();
  if (!flushed.any()) return;
  if (!first) std::memcpy(tile, before.data(), bytes);
  const base::FloatEnvironment exact;
  multiply_pairs<nr>(kc, a, b_panel, tile, rows, first);
}
#endif

}  // namespace tandem::tile
