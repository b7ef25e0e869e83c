// SPDX-License-Identifier: Apache-2.0
//
// The vector targets: one source (the -inl.h files), compiled by Highway once per instruction set,
// each into a namespace of its own, so that no code of one target can be linked into another. The
// instruction set comes from a pragma around those namespaces; this file itself is built with the
// project's plain flags. Start reading at multiply-inl.h.

// Only these targets have kernels. Highway insists on a baseline, which stays an empty shell here.
#define HWY_DISABLED_TARGETS (~(HWY_AVX3 | HWY_AVX2 | HWY_NEON | HWY_EMU128 | HWY_SCALAR))
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tile/simd_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Whatever is included here, outside the pragma, stays free of the target's instructions.
#include <array>
#include <span>

#include "base/element.h"
#include "tile/bf16_pairs.h"
#include "tile/pack_groups.h"
#include "tile/simd_kernels.h"

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
#include "tile/multiply-inl.h"
#include "tile/operands-inl.h"
#include "tile/pack-inl.h"
#include "tile/s8-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::tile::HWY_NAMESPACE {

constexpr Proof kProof = HWY_TARGET == HWY_NEON ? Proof::emulator : Proof::hardware;
#if HWY_TARGET == HWY_AVX3
constexpr std::string_view kTarget = "avx512";
constexpr auto kRunsOn = runs_avx512;
#elif HWY_TARGET == HWY_AVX2
constexpr std::string_view kTarget = "avx2";
constexpr auto kRunsOn = runs_avx2;
#else
constexpr std::string_view kTarget = "neon";
constexpr auto kRunsOn = runs_neon;
#endif

template <class Operand>
constexpr Kernel make_kernel() {
  return {.target = kTarget,
          .type = Operand::kType,
          .accumulator = DType::f32,
          .mr = rows_for(sizeof(typename Operand::Element)),
          .nr = kNr,
          .a_bytes = sizeof(float),
          .b_bytes = sizeof(typename Operand::Element),
          .proof = kProof,
          .runs_on = kRunsOn,
          .pack_a = pack_a<Operand>,
          .pack_b = pack_b<Operand>,
          .multiply = multiply<Operand>,
          .store = store};
}

#if HWY_TARGET == HWY_NEON
/// Kernel::multiply.
inline void multiply_bf16(std::int64_t kc, const std::byte* a_panel, const std::byte* b_panel,
                          std::byte* tile, int rows, bool first, Ahead ahead) {
  const auto* a = reinterpret_cast<const float*>(a_panel);
  multiply_and_mend<rows_for(2), kNr>(
      kc, [&](int r, std::int64_t k) { return a[a_index(rows, r, k)]; }, b_panel, tile, rows, first,
      [&] { multiply<Bf16Operand>(kc, a_panel, b_panel, tile, rows, first, ahead); });
}
#else
constexpr auto multiply_bf16 = multiply<Bf16Operand>;
#endif

constexpr Kernel make_bf16_kernel() {
  Kernel kernel = make_kernel<Bf16Operand>();
  kernel.multiply = multiply_bf16;
  kernel.pack_b = pack_b_groups<std::uint16_t, Bf16Operand::kSteps, kNr>;
  kernel.k_group = Bf16Operand::kSteps;
  kernel.flushes = true;
  return kernel;
}

constexpr Kernel kKernels[] = {make_kernel<F16Operand>(),
                               make_bf16_kernel(),
                               make_kernel<F32Operand>(),
                               {.target = kTarget,
                                .type = DType::s8,
                                .accumulator = DType::s32,
                                .mr = kS8Rows,
                                .nr = kS8Nr,
                                .a_bytes = sizeof(std::int16_t),
                                .b_bytes = 1,
                                .proof = kProof,
                                .kc = kS8KBlock,
                                .runs_on = kRunsOn,
                                .pack_a = pack_a_s8,
                                .pack_b = pack_b_s8<kS8Group, kS8Nr>,
                                .multiply = multiply_s8,
                                .store = nullptr,
                                .dequantise = dequantise_s8,
                                .quantise = quantise_s8,
                                .k_group = kS8Group}};

}  // namespace tandem::tile::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // targets that have kernels

#if HWY_ONCE
namespace tandem::tile {

std::span<const Kernel> avx512_kernels() {
#if HWY_TARGETS & HWY_AVX3
  return N_AVX3::kKernels;
#else
  return {};
#endif
}

std::span<const Kernel> avx2_kernels() {
#if HWY_TARGETS & HWY_AVX2
  return N_AVX2::kKernels;
#else
  return {};
#endif
}

std::span<const Kernel> neon_kernels() {
#if HWY_TARGETS & HWY_NEON
  return N_NEON::kKernels;
#else
  return {};
#endif
}

}  // namespace tandem::tile
#endif  // HWY_ONCE
