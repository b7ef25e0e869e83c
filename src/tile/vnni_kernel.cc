// SPDX-License-Identifier: Apache-2.0
//
// s8 with AVX-512 VNNI: vpdpbusd multiplies four unsigned by four signed bytes and adds all into 32
// bits, without saturation. A is packed as a + 128; the kernel's a_offset says so, and the bias
// takes the excess back, exactly (sums are modulo 2^32). Intrinsics rather than Highway, whose
// release in Debian 12 has no such operation. Start reading at multiply_rows().
#include "tile/vnni_kernel.h"

#if defined(__x86_64__)

#include <array>
#include <cstring>
#include <utility>

#include <immintrin.h>

#include "tile/contract.h"
#include "tile/pack_s8.h"
#include "tile/simd_kernels.h"

#define TANDEM_VNNI [[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni")]]

namespace tandem::tile {
namespace {

constexpr int kGroup = 4;
constexpr int kLanes = 16;
constexpr int kVectors = 2;  // each broadcast of A serves two multiplies
constexpr int kNr = kVectors * kLanes;
constexpr int kMr = 12;  // 24 sums, 2 of B, broadcasts: 12 × 2 keeps one multiply a cycle fed
/// Groups in a chunk of the A panel: a cache line per row.
constexpr std::int64_t kChunkGroups = 16;

template <int rows>
TANDEM_VNNI [[gnu::noinline]] void multiply_rows(std::int64_t kc, const std::byte* __restrict a,
                                                 const std::byte* __restrict b,
                                                 std::int32_t* __restrict tile, bool first,
                                                 Ahead ahead) {
  const std::byte* fetch = ahead.at;
  __m512i sum[rows][kVectors];
#pragma GCC unroll 32
  for (int r = 0; r < rows; ++r) {
    sum[r][0] = _mm512_setzero_si512();
    sum[r][1] = _mm512_setzero_si512();
  }
  for (std::int64_t left = (kc + kGroup - 1) / kGroup; left > 0;
       left -= kChunkGroups, a += rows * kChunkGroups * kGroup) {
    const std::int64_t groups = left < kChunkGroups ? left : kChunkGroups;
    for (std::int64_t g = 0; g < groups; ++g) {
      const __m512i column0 = _mm512_load_si512(b);
      const __m512i column1 = _mm512_load_si512(b + 64);
#pragma GCC unroll 32
      for (int r = 0; r < rows; ++r) {
        std::int32_t four = 0;
        std::memcpy(&four, a + (r * kChunkGroups + g) * kGroup, sizeof four);
        const __m512i row = _mm512_set1_epi32(four);
        sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], row, column0);
        sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], row, column1);
      }
      __builtin_prefetch(fetch);
      fetch += kGroup * ahead.step;
      b += kGroup * kNr;
    }
  }
#pragma GCC unroll 32
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      std::int32_t* const to = tile + r * kNr + v * kLanes;
      const __m512i total = first ? sum[r][v] : _mm512_add_epi32(sum[r][v], _mm512_load_si512(to));
      _mm512_store_si512(to, total);
    }
  }
}

using MultiplyRows = void (*)(std::int64_t, const std::byte*, const std::byte*, std::int32_t*, bool,
                              Ahead);

template <int... rows>
constexpr std::array<MultiplyRows, sizeof...(rows)> variants(std::integer_sequence<int, rows...>) {
  return {multiply_rows<rows + 1>...};
}

void multiply(std::int64_t kc, const std::byte* a_panel, const std::byte* b_panel, std::byte* tile,
              int rows, bool first, Ahead ahead) {
  static constexpr auto kVariants = variants(std::make_integer_sequence<int, kMr>());
  const MultiplyRows* by_rows = kVariants.data();
  by_rows[rows - 1](kc, a_panel, b_panel, reinterpret_cast<std::int32_t*>(tile), first, ahead);
}

TANDEM_VNNI void pack_a(const std::byte* const* rows, int row_count, std::int64_t kc,
                        std::byte* panel) {
  constexpr std::int64_t kLine = kChunkGroups * kGroup;
  const __m512i offset = _mm512_set1_epi8(-128);
  for (int r = 0; r < row_count; ++r) {
    std::byte* to = panel + r * kLine;
    for (std::int64_t k = 0; k < kc; k += kLine, to += row_count * kLine) {
      const std::int64_t left = kc - k;
      const __mmask64 present = left < kLine ? (1ULL << left) - 1 : ~0ULL;
      const __m512i bytes = _mm512_maskz_loadu_epi8(present, rows[r] + k);
      _mm512_store_si512(to, _mm512_xor_si512(bytes, offset));
    }
  }
}

std::array<Kernel, 1> make_kernels() {
  Kernel kernel{.target = "avx512_vnni",
                .type = DType::s8,
                .accumulator = DType::s32,
                .mr = kMr,
                .nr = kNr,
                .a_bytes = 1,
                .b_bytes = 1,
                .runs_on = runs_avx512_vnni,
                .pack_a = pack_a,
                .pack_b = pack_b_s8<kGroup, kNr>,
                .multiply = multiply,
                .store = nullptr};
  // The epilogue is that of the plain AVX-512 kernel, whose tiles have the same shape.
  for (const Kernel& plain : avx512_kernels()) {
    if (plain.type == DType::s8 && plain.nr == kNr) kernel.dequantise = plain.dequantise;
  }
  kernel.a_offset = 128;
  kernel.k_group = kGroup;
  return {kernel};
}

}  // namespace

std::span<const Kernel> avx512_vnni_kernels() {
  static const std::array<Kernel, 1> kernels = make_kernels();
  return kernels;
}

}  // namespace tandem::tile

#else

namespace tandem::tile {
std::span<const Kernel> avx512_vnni_kernels() { return {}; }
}  // namespace tandem::tile

#endif
