// SPDX-License-Identifier: Apache-2.0
//
// The scalar s8 target: exact s32 sums and the epilogue in their plainest form, for any CPU. The
// vector kernels do the same with more columns at a time.
#include <array>
#include <cstring>

#include "tile/contract.h"
#include "tile/dequantise.h"
#include "tile/scalar_kernel.h"

namespace tandem::tile {
namespace {

// Small, and no multiple of each other: tests of edges meet every case with little work.
constexpr int kMr = 4;
constexpr int kNr = 6;

void pack_a(const std::byte* const* rows, int row_count, std::int64_t kc, std::byte* panel) {
  for (int r = 0; r < row_count; ++r) {
    std::memcpy(panel + r * kKc, rows[r], static_cast<std::size_t>(kc));
  }
}

void pack_b(const std::byte* b, std::int64_t stride, BLayout layout, std::int64_t kc, int cols,
            std::byte* panel) {
  std::memset(panel, 0, static_cast<std::size_t>(kc * kNr));
  for (std::int64_t k = 0; k < kc; ++k) {
    for (std::int64_t j = 0; j < cols; ++j) {
      panel[k * kNr + j] = b[layout == BLayout::kn ? k * stride + j : j * stride + k];
    }
  }
}

void multiply(std::int64_t kc, const std::byte* a_panel, const std::byte* b_panel, std::byte* tile,
              int rows, bool first, Ahead) {
  const auto* a = reinterpret_cast<const std::int8_t*>(a_panel);
  const auto* b = reinterpret_cast<const std::int8_t*>(b_panel);
  auto* c = reinterpret_cast<std::int32_t*>(tile);
  for (int r = 0; r < rows; ++r) {
    std::array<std::int32_t, kNr> sum{};
    for (std::int64_t k = 0; k < kc; ++k) {
      for (int j = 0; j < kNr; ++j) {
        sum[static_cast<std::size_t>(j)] += a[r * kKc + k] * b[k * kNr + j];
      }
    }
    for (int j = 0; j < kNr; ++j) {
      std::int32_t& out = c[r * kNr + j];
      const std::int32_t value = sum[static_cast<std::size_t>(j)];
      out = first ? value : wrapping_add(out, value);
    }
  }
}

void dequantise_tile(const std::byte* tile, int rows, int cols, const Dequantisation& factors,
                     const float* row_scale, DType type, std::byte* to, std::int64_t pitch) {
  const auto* c = reinterpret_cast<const std::int32_t*>(tile);
  const auto bytes = static_cast<std::int64_t>(size_of(type));
  for (int r = 0; r < rows; ++r) {
    for (int j = 0; j < cols; ++j) {
      const std::int32_t bias = factors.bias == nullptr ? 0 : factors.bias[j];
      const std::int32_t acc = wrapping_add(c[r * kNr + j], bias);
      dequantise_element(acc, factors, j, row_scale == nullptr ? nullptr : row_scale + r, type,
                         to + r * pitch + j * bytes);
    }
  }
}

bool runs_anywhere(const base::CpuFeatures&, std::string*) { return true; }

constexpr std::array kKernels{Kernel{.target = "scalar",
                                     .type = DType::s8,
                                     .accumulator = DType::s32,
                                     .mr = kMr,
                                     .nr = kNr,
                                     .a_bytes = 1,
                                     .b_bytes = 1,
                                     .runs_on = runs_anywhere,
                                     .pack_a = pack_a,
                                     .pack_b = pack_b,
                                     .multiply = multiply,
                                     .store = nullptr,
                                     .dequantise = dequantise_tile,
                                     .quantise = quantise_row}};

}  // namespace

std::span<const Kernel> scalar_s8_kernels() { return kKernels; }

}  // namespace tandem::tile
