// SPDX-License-Identifier: Apache-2.0
//
// s8 with Arm's dot product: sdot multiplies four signed by four signed bytes and adds all into 32
// bits. No offset is needed.
#include "tile/dot_kernels.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#include "tile/simd_kernels.h"

#define TANDEM_DOT4_TARGET [[gnu::target("arch=armv8.2-a+dotprod")]]
#include "tile/dot4-inl.h"

namespace tandem::tile {
namespace {

struct NeonDot {
  using Element = std::uint8_t;
  using Sums = int32x4_t;
  using Words = int32x4_t;
  static constexpr DType kType = DType::s8;
  static constexpr int kLanes = 4;
  static constexpr int kVectors = 2;
  static constexpr int kMr = 12;  // 24 sums, 2 of B and a broadcast of 32 registers
  static constexpr Proof kProof = Proof::emulator;
  static constexpr std::int32_t kOffset = 0;
  static constexpr std::int64_t kKBlock = 1024;  // as many bytes of A as floats have. Not measured.

  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Sums zero() { return vdupq_n_s32(0); }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Words load(const std::byte* from) {
    return vreinterpretq_s32_s8(vld1q_s8(reinterpret_cast<const std::int8_t*>(from)));
  }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Words broadcast(const std::byte* from) {
    return vld1q_dup_s32(reinterpret_cast<const std::int32_t*>(from));
  }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static Sums dot(Sums sum, Words a, Words b) {
    return vdotq_s32(sum, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
  }
  TANDEM_DOT4_TARGET [[gnu::always_inline]] static void store_sums(std::byte* to, Sums sum,
                                                                   bool add) {
    auto* const sums = reinterpret_cast<std::int32_t*>(to);
    if (add) sum = vaddq_s32(sum, vld1q_s32(sums));
    vst1q_s32(sums, sum);
  }
};

}  // namespace

std::span<const Kernel> neon_dot_kernels() {
  static const std::array kKernels{
      make_dot4_kernel<NeonDot>("neon_dot", runs_neon_dot, neon_kernels())};
  return kKernels;
}

}  // namespace tandem::tile

#else

namespace tandem::tile {
std::span<const Kernel> neon_dot_kernels() { return {}; }
}  // namespace tandem::tile

#endif
