// SPDX-License-Identifier: Apache-2.0
//
// The scalar target: the numerics contract in its plainest form, for any CPU. Start reading here;
// the vector kernels (simd_kernels.cc) do the same with more columns at a time. It is not meant to
// be fast: without FMA in the baseline, std::fma is a library call.
#include "tile/scalar_kernel.h"

#include <array>
#include <cmath>
#include <cstring>

#include "base/element.h"
#include "tile/bf16_pairs.h"
#include "tile/pack_groups.h"

namespace tandem::tile {
namespace {

// Small, and no multiple of each other: tests of edges meet every case with little work.
constexpr int kMr = 4;
constexpr int kNr = 6;

template <DType type>
void pack_a(const std::byte* const* rows, int row_count, std::int64_t kc, std::byte* panel) {
  auto* out = reinterpret_cast<float*>(panel);
  for (int r = 0; r < row_count; ++r) {
    for (std::int64_t k = 0; k < kc; ++k) {
      out[a_index(row_count, r, k)] =
          base::load_element(type, rows[r] + static_cast<std::size_t>(k) * size_of(type));
    }
    if (type == DType::bf16 && kc % 2 != 0) out[a_index(row_count, r, kc)] = 0;
  }
}

template <DType type>
void pack_b(const std::byte* b, std::int64_t stride, BLayout layout, std::int64_t kc, int cols,
            std::byte* panel) {
  const std::size_t bytes = size_of(type);
  std::memset(panel, 0, static_cast<std::size_t>(kc * kNr) * bytes);
  for (std::int64_t k = 0; k < kc; ++k) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const std::int64_t from = layout == BLayout::kn ? k * stride + j : j * stride + k;
      std::memcpy(panel + static_cast<std::size_t>(k * kNr + j) * bytes,
                  b + static_cast<std::size_t>(from) * bytes, bytes);
    }
  }
}

template <DType type>
void multiply(std::int64_t kc, const std::byte* a_panel, const std::byte* b_panel, std::byte* tile,
              int rows, bool first, Ahead) {
  const auto* a = reinterpret_cast<const float*>(a_panel);
  auto* c = reinterpret_cast<float*>(tile);
  for (int r = 0; r < rows; ++r) {
    std::array<float, kNr> chain{};
    for (std::int64_t k = 0; k < kc; ++k) {
      for (int j = 0; j < kNr; ++j) {
        const float b = base::load_element(
            type, b_panel + static_cast<std::size_t>(k * kNr + j) * size_of(type));
        float& sum = chain[static_cast<std::size_t>(j)];
        sum = std::fma(a[a_index(rows, r, k)], b, sum);
      }
    }
    for (int j = 0; j < kNr; ++j) {
      float& out = c[r * kNr + j];
      const float sum = chain[static_cast<std::size_t>(j)];
      out = first ? sum : out + sum;
    }
  }
}

void multiply_bf16(std::int64_t kc, const std::byte* a_panel, const std::byte* b_panel,
                   std::byte* tile, int rows, bool first, Ahead) {
  const auto* a = reinterpret_cast<const float*>(a_panel);
  multiply_pairs<kNr>(
      kc, [&](int r, std::int64_t k) { return a[a_index(rows, r, k)]; }, b_panel, tile, rows,
      first);
}

void store(const std::byte* tile, int rows, int cols, DType type, std::byte* to,
           std::int64_t pitch) {
  const auto* c = reinterpret_cast<const float*>(tile);
  for (int r = 0; r < rows; ++r) {
    for (int j = 0; j < cols; ++j) {
      base::store_element(type, c[r * kNr + j],
                          to + r * pitch + static_cast<std::int64_t>(size_of(type)) * j);
    }
  }
}

bool runs_anywhere(const base::CpuFeatures&, std::string*) { return true; }

template <DType type>
constexpr Kernel make_kernel(std::size_t bytes) {
  return {.target = "scalar",
          .type = type,
          .accumulator = DType::f32,
          .mr = kMr,
          .nr = kNr,
          .a_bytes = sizeof(float),
          .b_bytes = bytes,
          .runs_on = runs_anywhere,
          .pack_a = pack_a<type>,
          .pack_b = pack_b<type>,
          .multiply = multiply<type>,
          .store = store};
}

constexpr Kernel make_bf16_kernel() {
  Kernel kernel = make_kernel<DType::bf16>(2);
  kernel.pack_b = pack_b_groups<std::uint16_t, 2, kNr>;
  kernel.multiply = multiply_bf16;
  kernel.k_group = 2;
  return kernel;
}

constexpr std::array kKernels{make_kernel<DType::f16>(2), make_bf16_kernel(),
                              make_kernel<DType::f32>(4)};

}  // namespace

std::span<const Kernel> scalar_kernels() { return kKernels; }

}  // namespace tandem::tile
