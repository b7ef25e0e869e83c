// SPDX-License-Identifier: Apache-2.0
//
// bf16 with AVX-512 BF16: vdpbf16ps multiplies 16 pairs by pairs and adds the odd products, then
// the even ones, to f32 sums, flushing subnormals: the step by which docs/numerics.md defines the
// bf16 sum. Twice the operations of an FMA, and no widening of A or B.
#include "tile/dot_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "tile/simd_kernels.h"

#define TANDEM_DOT4_TARGET [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]]
#include "tile/dot4-inl.h"

namespace tandem::tile {
namespace {

struct Avx512Bf16 {
  using Element = std::uint16_t;
  using Sums = __m512;
  using Words = __m512i;
  static constexpr DType kType = DType::bf16;
  static constexpr int kLanes = 16;
  static constexpr int kVectors = 1;
  static constexpr int kMr = 24;
  static constexpr Proof kProof = Proof::hardware;
  static constexpr std::int32_t kOffset = 0;
  static constexpr std::int64_t kKBlock = kKc;  // the contract's

  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Sums zero() { return _mm512_setzero_ps(); }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Words load(const std::byte* from) {
    return _mm512_load_si512(from);
  }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Words broadcast(const std::byte* from) {
    std::int32_t pair = 0;
    std::memcpy(&pair, from, sizeof pair);
    return _mm512_set1_epi32(pair);
  }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Sums dot(Sums sum, Words a, Words b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static void store_sums(std::byte* to, Sums sum,
                                                                   bool add) {
    if (add) sum = _mm512_add_ps(_mm512_load_ps(to), sum);
    _mm512_store_ps(to, sum);
  }
};

}  // namespace

std::span<const Kernel> avx512_bf16_kernels() {
  static const std::array kKernels{
      make_dot4_kernel<Avx512Bf16>("avx512_bf16", runs_avx512_bf16, avx512_kernels())};
  return kKernels;
}

}  // namespace tandem::tile

#else

namespace tandem::tile {
std::span<const Kernel> avx512_bf16_kernels() { return {}; }
}  // namespace tandem::tile

#endif
