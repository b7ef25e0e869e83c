// SPDX-License-Identifier: Apache-2.0
//
// s8 with Arm's matrix multiply: smmla takes two rows of A and two columns of B, eight steps of k
// each, and adds the four dot products to a 2 × 2 block. Start reading at multiply_pairs().
#include "tile/dot_kernels.h"

#if defined(__aarch64__)

#include <array>
#include <cstring>
#include <utility>

#include <arm_neon.h>

#include "tile/pack_groups.h"
#include "tile/simd_kernels.h"

#define TANDEM_I8MM [[gnu::target("arch=armv8.2-a+i8mm")]]

namespace tandem::tile {
namespace {

constexpr int kSteps = 8;  // of k in one instruction
constexpr int kNr = 8;     // four pairs of columns
constexpr int kMr = 8;     // four pairs of rows: 16 blocks, 4 of B, 1 of A
constexpr int kPairs = kNr / 2;
/// Instructions in a chunk of the A panel: two cache lines per pair of rows.
constexpr std::int64_t kChunkSteps = 8;
constexpr std::int64_t kPairLine = 2 * kSteps * kChunkSteps;

/// `pairs` pairs of rows; of the last one the second row is not stored when `rows` is odd.
template <int pairs>
TANDEM_I8MM [[gnu::noinline]] void multiply_pairs(std::int64_t kc, const std::int8_t* a,
                                                  const std::int8_t* b, std::int32_t* tile,
                                                  int rows, bool first, Ahead ahead) {
  const std::byte* fetch = ahead.at;
  int32x4_t sum[pairs][kPairs];
#pragma GCC unroll 32
  for (int p = 0; p < pairs; ++p) {
#pragma GCC unroll 32
    for (int v = 0; v < kPairs; ++v) sum[p][v] = vdupq_n_s32(0);
  }
  for (std::int64_t left = (kc + kSteps - 1) / kSteps; left > 0;
       left -= kChunkSteps, a += pairs * kPairLine) {
    const std::int64_t steps = left < kChunkSteps ? left : kChunkSteps;
    for (std::int64_t g = 0; g < steps; ++g) {
      int8x16_t column[kPairs];
#pragma GCC unroll 32
      for (int v = 0; v < kPairs; ++v) column[v] = vld1q_s8(b + v * 2 * kSteps);
#pragma GCC unroll 32
      for (int p = 0; p < pairs; ++p) {
        const int8x16_t row = vld1q_s8(a + p * kPairLine + g * 2 * kSteps);
#pragma GCC unroll 32
        for (int v = 0; v < kPairs; ++v) sum[p][v] = vmmlaq_s32(sum[p][v], row, column[v]);
      }
      __builtin_prefetch(fetch);
      fetch += kSteps * ahead.step;
      b += kSteps * kNr;
    }
  }
#pragma GCC unroll 32
  for (int p = 0; p < pairs; ++p) {
#pragma GCC unroll 32
    for (int v = 0; v < kPairs; ++v) {
      const auto put = [&](int row, int32x2_t value) TANDEM_I8MM {
        std::int32_t* const to = tile + row * kNr + 2 * v;
        vst1_s32(to, first ? value : vadd_s32(value, vld1_s32(to)));
      };
      put(2 * p, vget_low_s32(sum[p][v]));
      if (2 * p + 1 < rows) put(2 * p + 1, vget_high_s32(sum[p][v]));
    }
  }
}

void multiply(std::int64_t kc, const std::byte* a_panel, const std::byte* b_panel, std::byte* tile,
              int rows, bool first, Ahead ahead) {
  using MultiplyPairs = void (*)(std::int64_t, const std::int8_t*, const std::int8_t*,
                                 std::int32_t*, int, bool, Ahead);
  static constexpr std::array<MultiplyPairs, kMr / 2> kVariants{
      multiply_pairs<1>, multiply_pairs<2>, multiply_pairs<3>, multiply_pairs<4>};
  const MultiplyPairs* by_pairs = kVariants.data();
  by_pairs[(rows - 1) / 2](kc, reinterpret_cast<const std::int8_t*>(a_panel),
                           reinterpret_cast<const std::int8_t*>(b_panel),
                           reinterpret_cast<std::int32_t*>(tile), rows, first, ahead);
}

/// Pairs of rows, eight steps of the one and eight of the other in turn; zeros behind the last.
void pack_a(const std::byte* const* rows, int row_count, std::int64_t kc, std::byte* panel) {
  const int pairs = (row_count + 1) / 2;
  for (std::int64_t k = 0; k < kc; k += kSteps) {
    const std::int64_t chunk = k / (kSteps * kChunkSteps), step = k / kSteps % kChunkSteps;
    const auto present = static_cast<std::size_t>(kc - k < kSteps ? kc - k : kSteps);
    for (int r = 0; r < 2 * pairs; ++r) {
      std::byte* const to =
          panel + (chunk * pairs + r / 2) * kPairLine + step * 2 * kSteps + (r % 2) * kSteps;
      std::memset(to, 0, kSteps);
      if (r < row_count) std::memcpy(to, rows[r] + k, present);
    }
  }
}

std::array<Kernel, 1> make_kernels() {
  Kernel kernel{.target = "neon_i8mm",
                .type = DType::s8,
                .accumulator = DType::s32,
                .mr = kMr,
                .nr = kNr,
                .a_bytes = 1,
                .b_bytes = 1,
                .runs_on = runs_neon_i8mm,
                .pack_a = pack_a,
                .pack_b = pack_b_s8<kSteps, kNr>,
                .multiply = multiply,
                .store = nullptr};
  take_conversions(neon_kernels(), kernel);
  kernel.k_group = kSteps;
  kernel.proof = Proof::emulator;
  return {kernel};
}

}  // namespace

std::span<const Kernel> neon_i8mm_kernels() {
  static const std::array<Kernel, 1> kernels = make_kernels();
  return kernels;
}

}  // namespace tandem::tile

#else

namespace tandem::tile {
std::span<const Kernel> neon_i8mm_kernels() { return {}; }
}  // namespace tandem::tile

#endif
