// SPDX-License-Identifier: Apache-2.0
//
// s8 with AVX-512 VNNI: vpdpbusd multiplies four unsigned by four signed bytes and adds all into 32
// bits, without saturation. A is packed as a + 128; the kernel's a_offset says so, and the bias
// takes the excess back, exactly (sums are modulo 2^32). Intrinsics rather than Highway, whose
// release in Debian 12 has no such operation.
#include "tile/dot_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "tile/simd_kernels.h"

#define TANDEM_DOT4_TARGET [[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni")]]
#include "tile/dot4-inl.h"

namespace tandem::tile {
namespace {

struct Avx512Vnni {
  using Element = std::uint8_t;
  using Sums = __m512i;
  using Words = __m512i;
  static constexpr DType kType = DType::s8;
  static constexpr int kLanes = 16;
  static constexpr int kVectors = 2;
  static constexpr int kMr = 12;  // 24 sums, 2 of B and a broadcast of 32 registers
  static constexpr Proof kProof = Proof::hardware;
  static constexpr std::int32_t kOffset = 128;
  // Long blocks: a tile of sums is loaded and stored once per block, which weighs as much here as
  // four times the arithmetic would. 0.96 of the ceiling instead of 0.93 with 256 (128 × 4096 ×
  // 4096, Zen 4); with 8 rows and B from memory 0.87 instead of 0.73.
  static constexpr std::int64_t kKBlock = 4096;

  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Sums zero() { return _mm512_setzero_si512(); }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Words load(const std::byte* from) {
    return _mm512_load_si512(from);
  }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Words broadcast(const std::byte* from) {
    std::int32_t four = 0;
    std::memcpy(&four, from, sizeof four);
    return _mm512_set1_epi32(four);
  }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Sums dot(Sums sum, Words a, Words b) {
    return _mm512_dpbusd_epi32(sum, a, b);
  }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static void store_sums(std::byte* to, Sums sum,
                                                                   bool add) {
    if (add) sum = _mm512_add_epi32(sum, _mm512_load_si512(to));
    _mm512_store_si512(to, sum);
  }
};

}  // namespace

std::span<const Kernel> avx512_vnni_kernels() {
  static const std::array kKernels{
      make_dot4_kernel<Avx512Vnni>("avx512_vnni", runs_avx512_vnni, avx512_kernels())};
  return kKernels;
}

}  // namespace tandem::tile

#else

namespace tandem::tile {
std::span<const Kernel> avx512_vnni_kernels() { return {}; }
}  // namespace tandem::tile

#endif
