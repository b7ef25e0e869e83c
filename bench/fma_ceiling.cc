// SPDX-License-Identifier: Apache-2.0
//
// The register-only FMA loop, compiled once per instruction set like tile/simd_kernels.cc.
#define HWY_DISABLED_TARGETS (~(HWY_AVX3 | HWY_AVX2 | HWY_NEON | HWY_EMU128 | HWY_SCALAR))
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/fma_ceiling.cc"
#include "bench/fma_ceiling.h"

#include <cmath>

#include <benchmark/benchmark.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
HWY_BEFORE_NAMESPACE();
namespace tandem::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline double run_chains(std::int64_t steps) {
  // 12 hide 4 to 5 cycles of latency at two FMAs per cycle, and leave room in 16 registers.
  constexpr int kChains = 12;
  const hn::ScalableTag<float> f;
  hn::Vec<decltype(f)> chain[kChains];
  auto factor = hn::Set(f, 0.999f);
  auto term = hn::Set(f, 0.001f);
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) chain[i] = hn::Set(f, static_cast<float>(i));
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chain[i] = hn::MulAdd(factor, chain[i], term);
  }
  auto sum = chain[0];
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) sum = hn::Add(sum, chain[i]);
  float kept = hn::GetLane(hn::SumOfLanes(f, sum));
  benchmark::DoNotOptimize(kept);
  return 2.0 * kChains * static_cast<double>(hn::Lanes(f)) * static_cast<double>(steps);
}

}  // namespace tandem::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // targets that have kernels

#if HWY_ONCE
namespace tandem::bench {

double run_fma_chains(std::string_view target, std::int64_t steps) {
#if HWY_TARGETS & HWY_AVX3
  if (target == "avx512") return N_AVX3::run_chains(steps);
#endif
#if HWY_TARGETS & HWY_AVX2
  if (target == "avx2") return N_AVX2::run_chains(steps);
#endif
#if HWY_TARGETS & HWY_NEON
  if (target == "neon") return N_NEON::run_chains(steps);
#endif
  float chain[4] = {1, 2, 3, 4};
  for (std::int64_t step = 0; step < steps; ++step) {
    for (float& c : chain) c = std::fma(0.999f, c, 0.001f);
  }
  benchmark::DoNotOptimize(chain);
  return 8.0 * static_cast<double>(steps);
}

}  // namespace tandem::bench
#endif  // HWY_ONCE
