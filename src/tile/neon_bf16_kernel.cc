// SPDX-License-Identifier: Apache-2.0
//
// bf16 with Arm's FEAT_BF16: BFMLALT and BFMLALB multiply the odd and the even elements of pairs
// and add them to f32 sums, one fused step each, without widening A or B. (BFDOT and BFMMLA, which
// are faster, round pairs and fours together: another contract.)
#include "tile/dot_kernels.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#include "tile/bf16_pairs.h"
#include "tile/simd_kernels.h"

#define TANDEM_DOT4_TARGET [[gnu::target("arch=armv8.2-a+bf16")]]
#include "tile/dot4-inl.h"

namespace tandem::tile {
namespace {

struct NeonBf16 {
  using Element = std::uint16_t;
  using Sums = float32x4_t;
  using Words = uint32x4_t;
  static constexpr DType kType = DType::bf16;
  static constexpr int kLanes = 4;
  static constexpr int kVectors = 4;
  static constexpr int kMr = 6;  // 24 sums, 4 of B and a broadcast of 32 registers
  static constexpr Proof kProof = Proof::emulator;
  static constexpr std::int32_t kOffset = 0;
  static constexpr std::int64_t kKBlock = kKc;  // the contract's

  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Sums zero() { return vdupq_n_f32(0); }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Words load(const std::byte* from) {
    return vld1q_u32(reinterpret_cast<const std::uint32_t*>(from));
  }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Words broadcast(const std::byte* from) {
    return vld1q_dup_u32(reinterpret_cast<const std::uint32_t*>(from));
  }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Sums dot(Sums sum, Words a, Words b) {
    const bfloat16x8_t row = vreinterpretq_bf16_u32(a), column = vreinterpretq_bf16_u32(b);
    return vbfmlalbq_f32(vbfmlaltq_f32(sum, row, column), row, column);
  }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static void store_sums(std::byte* to, Sums sum,
                                                                   bool add) {
    auto* const sums = reinterpret_cast<float*>(to);
    if (add) sum = vaddq_f32(vld1q_f32(sums), sum);
    vst1q_f32(sums, sum);
  }
};

/// Kernel::multiply.
void multiply_bf16(std::int64_t kc, const std::byte* a_panel, const std::byte* b_panel,
                   std::byte* tile, int rows, bool first, Ahead ahead) {
  const auto a = [&](int r, std::int64_t k) {
    constexpr std::int64_t kLine = kLineBytes / 2;  // elements
    return base::load_element(DType::bf16,
                              a_panel + ((k / kLine * rows + r) * kLine + k % kLine) * 2);
  };
  multiply_and_mend<NeonBf16::kMr, kDotNr<NeonBf16>>(kc, a, b_panel, tile, rows, first, [&] {
    multiply_dot4<NeonBf16>(kc, a_panel, b_panel, tile, rows, first, ahead);
  });
}

}  // namespace

std::span<const Kernel> neon_bf16_kernels() {
  static const std::array kKernels = [] {
    Kernel kernel = make_dot4_kernel<NeonBf16>("neon_bf16", runs_neon_bf16, neon_kernels());
    kernel.multiply = multiply_bf16;
    return std::array{kernel};
  }();
  return kKernels;
}

}  // namespace tandem::tile

#else

namespace tandem::tile {
std::span<const Kernel> neon_bf16_kernels() { return {}; }
}  // namespace tandem::tile

#endif
