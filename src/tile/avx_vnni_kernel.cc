// SPDX-License-Identifier: Apache-2.0
//
// s8 with AVX-VNNI, the 256-bit form of vpdpbusd that CPUs without AVX-512 have. As
// avx512_vnni_kernel.cc, with half the lanes and half the registers.
#include "tile/dot_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "tile/simd_kernels.h"

#define TANDEM_DOT4_TARGET [[gnu::target("avx2,fma,avxvnni")]]
#include "tile/dot4-inl.h"

namespace tandem::tile {
namespace {

struct AvxVnni {
  using Element = std::uint8_t;
  using Sums = __m256i;
  using Words = __m256i;
  static constexpr DType kType = DType::s8;
  static constexpr int kLanes = 8;
  static constexpr int kVectors = 2;
  static constexpr int kMr = 6;  // 12 sums, 2 of B and a broadcast of 16 registers
  static constexpr Proof kProof = Proof::never_run;
  static constexpr std::int32_t kOffset = 128;
  static constexpr std::int64_t kKBlock = 1024;  // as many bytes of A as floats have. Not measured.

  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Sums zero() { return _mm256_setzero_si256(); }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Words load(const std::byte* from) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
  }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Words broadcast(const std::byte* from) {
    std::int32_t four = 0;
    std::memcpy(&four, from, sizeof four);
    return _mm256_set1_epi32(four);
  }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Sums dot(Sums sum, Words a, Words b) {
    return _mm256_dpbusd_avx_epi32(sum, a, b);
  }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static void store_sums(std::byte* to, Sums sum,
                                                                   bool add) {
    auto* const at = reinterpret_cast<__m256i*>(to);
    if (add) sum = _mm256_add_epi32(sum, _mm256_load_si256(at));
    _mm256_store_si256(at, sum);
  }
};

}  // namespace

std::span<const Kernel> avx_vnni_kernels() {
  static const std::array kKernels{
      make_dot4_kernel<AvxVnni>("avx_vnni", runs_avx_vnni, avx2_kernels())};
  return kKernels;
}

}  // namespace tandem::tile

#else

namespace tandem::tile {
std::span<const Kernel> avx_vnni_kernels() { return {}; }
}  // namespace tandem::tile

#endif
