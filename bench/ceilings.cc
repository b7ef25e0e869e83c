// SPDX-License-Identifier: Apache-2.0
//
// The register-only loops. 12 chains hide a latency of 4 to 5 cycles at two instructions per cycle
// and leave operands and a temporary in 16 registers. Products that stay the same are in assembly,
// so that no compiler moves them out of the loop; softer hints cost copies of registers or spills
// with gcc 12, and made the ceiling too low.
#include "bench/ceilings.h"

#include <cmath>

#include "platform/topology.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace tandem::bench {
namespace {

constexpr int kChains = 12;
// Operands that no compiler knows: clang drops a chain that it can prove to stay at 1.
volatile float factor_source = 0.999f, term_source = 0.001f;
volatile char a_source = 3, b_source = 5;
volatile float float_sink;
volatile std::int32_t integer_sink;

// Every vector register holds kBytes; a multiply-add counts 2.
constexpr double fma_operations(int bytes, std::int64_t steps) {
  return 2.0 * kChains * (bytes / 4) * static_cast<double>(steps);
}

double run_fma_scalar(std::int64_t steps) {
  const float factor = factor_source, term = term_source;
  float chain[kChains] = {};
  for (std::int64_t step = 0; step < steps; ++step) {
    for (float& c : chain) c = std::fma(factor, c, term);
  }
  for (const float c : chain) float_sink = c;
  return fma_operations(4, steps);
}

#if defined(__x86_64__)

[[gnu::target("avx2,fma")]] double run_fma_avx2(std::int64_t steps) {
  const __m256 factor = _mm256_set1_ps(factor_source), term = _mm256_set1_ps(term_source);
  __m256 chain[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) chain[i] = _mm256_set1_ps(static_cast<float>(i));
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chain[i] = _mm256_fmadd_ps(factor, chain[i], term);
  }
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) chain[0] = _mm256_add_ps(chain[0], chain[i]);
  float_sink = _mm256_cvtss_f32(chain[0]);
  return fma_operations(32, steps);
}

[[gnu::target("avx512f")]] double run_fma_avx512(std::int64_t steps) {
  const __m512 factor = _mm512_set1_ps(factor_source), term = _mm512_set1_ps(term_source);
  __m512 chain[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) chain[i] = _mm512_set1_ps(static_cast<float>(i));
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chain[i] = _mm512_fmadd_ps(factor, chain[i], term);
  }
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) chain[0] = _mm512_add_ps(chain[0], chain[i]);
  float_sink = _mm512_cvtss_f32(chain[0]);
  return fma_operations(64, steps);
}

// One vpmaddwd multiplies 2 · bytes / 4 pairs of 16-bit values; vpaddd adds the sums up.
[[gnu::target("avx2")]] double run_madd_avx2(std::int64_t steps) {
  const __m256i a = _mm256_set1_epi16(a_source), b = _mm256_set1_epi16(b_source);
  __m256i chain[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) chain[i] = _mm256_set1_epi32(i);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      asm volatile("vpmaddwd %2, %1, %%ymm15\n\tvpaddd %%ymm15, %0, %0"
                   : "+x"(chain[i])
                   : "x"(a), "x"(b)
                   : "xmm15");
    }
  }
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) chain[0] = _mm256_add_epi32(chain[0], chain[i]);
  integer_sink = static_cast<std::int32_t>(chain[0][0]);
  return 2 * fma_operations(32, steps);
}

[[gnu::target("avx512f,avx512bw")]] double run_madd_avx512(std::int64_t steps) {
  const __m512i a = _mm512_set1_epi16(a_source), b = _mm512_set1_epi16(b_source);
  __m512i chain[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) chain[i] = _mm512_set1_epi32(i);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      asm volatile("vpmaddwd %2, %1, %%zmm15\n\tvpaddd %%zmm15, %0, %0"
                   : "+v"(chain[i])
                   : "v"(a), "v"(b)
                   : "xmm15");
    }
  }
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) chain[0] = _mm512_add_epi32(chain[0], chain[i]);
  integer_sink = static_cast<std::int32_t>(chain[0][0]);
  return 2 * fma_operations(64, steps);
}

// One vpdpbusd multiplies bytes / 4 groups of four u8 · s8 and adds each group to its s32 sum.
[[gnu::target("avx2,avxvnni")]] double run_dpbusd_avx(std::int64_t steps) {
  const __m256i a = _mm256_set1_epi8(a_source), b = _mm256_set1_epi8(b_source);
  __m256i chain[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) chain[i] = _mm256_set1_epi32(i);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chain[i] = _mm256_dpbusd_avx_epi32(chain[i], a, b);
  }
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) chain[0] = _mm256_add_epi32(chain[0], chain[i]);
  integer_sink = static_cast<std::int32_t>(chain[0][0]);
  return 4 * fma_operations(32, steps);
}

[[gnu::target("avx512f,avx512vnni")]] double run_dpbusd_avx512(std::int64_t steps) {
  const __m512i a = _mm512_set1_epi8(a_source), b = _mm512_set1_epi8(b_source);
  __m512i chain[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) chain[i] = _mm512_set1_epi32(i);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chain[i] = _mm512_dpbusd_epi32(chain[i], a, b);
  }
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) chain[0] = _mm512_add_epi32(chain[0], chain[i]);
  integer_sink = static_cast<std::int32_t>(chain[0][0]);
  return 4 * fma_operations(64, steps);
}

// One vdpbf16ps multiplies 2 · bytes / 4 pairs of bf16 and adds both products to the pair's f32
// sum.
[[gnu::target("avx512f,avx512bf16")]] double run_dpbf16_avx512(std::int64_t steps) {
  const __m512i a = _mm512_set1_epi8(a_source), b = _mm512_set1_epi8(b_source);
  __m512 chain[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) chain[i] = _mm512_set1_ps(static_cast<float>(i));
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      chain[i] = _mm512_dpbf16_ps(chain[i], (__m512bh)a, (__m512bh)b);
    }
  }
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) chain[0] = _mm512_add_ps(chain[0], chain[i]);
  float_sink = _mm512_cvtss_f32(chain[0]);
  return 2 * fma_operations(64, steps);
}

#elif defined(__aarch64__)

double run_fma_neon(std::int64_t steps) {
  // Four FMA units with a latency of 4 want 16 chains; cores with two are served by 12 as well.
  constexpr int kNeonChains = 16;
  const float32x4_t factor = vdupq_n_f32(factor_source), term = vdupq_n_f32(term_source);
  float32x4_t chain[kNeonChains];
#pragma GCC unroll 16
  for (int i = 0; i < kNeonChains; ++i) chain[i] = vdupq_n_f32(static_cast<float>(i));
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (int i = 0; i < kNeonChains; ++i) chain[i] = vfmaq_f32(chain[i], factor, term);
  }
#pragma GCC unroll 16
  for (int i = 1; i < kNeonChains; ++i) chain[0] = vaddq_f32(chain[0], chain[i]);
  float_sink = vgetq_lane_f32(chain[0], 0);
  return fma_operations(16, steps) * kNeonChains / kChains;
}

#endif

}  // namespace

Isa isa_of(std::string_view target) {
  if (target.starts_with("avx512")) return Isa::avx512;
  if (target.starts_with("avx2") || target.starts_with("avx_")) return Isa::avx2;
  if (target.starts_with("neon")) return Isa::neon;
  return Isa::scalar;
}

std::string_view name(S8Step step) {
  switch (step) {
    case S8Step::none:
      return "none";
    case S8Step::madd_avx2:
      return "vpmaddwd + vpaddd, 256 bits";
    case S8Step::madd_avx512:
      return "vpmaddwd + vpaddd, 512 bits";
    case S8Step::dpbusd_avx:
      return "vpdpbusd, 256 bits";
    case S8Step::dpbusd_avx512:
      return "vpdpbusd, 512 bits";
  }
  return "none";
}

S8Step choose_s8_step(const base::CpuFeatures& cpu, std::string_view target) {
  if (target == "scalar") return S8Step::none;
  const bool any = target == "auto";
  const bool vnni = any || target.find("vnni") != std::string_view::npos;
  const bool wide = any || isa_of(target) == Isa::avx512;
  if (vnni && wide && cpu.avx512_vnni) return S8Step::dpbusd_avx512;
  if (vnni && cpu.avx_vnni) return S8Step::dpbusd_avx;
  if (wide && cpu.avx512bw) return S8Step::madd_avx512;
  if (cpu.avx2) return S8Step::madd_avx2;
  return S8Step::none;
}

double run_fma_chains(Isa isa, std::int64_t steps) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return run_fma_avx512(steps);
  if (isa == Isa::avx2) return run_fma_avx2(steps);
#elif defined(__aarch64__)
  if (isa == Isa::neon) return run_fma_neon(steps);
#endif
  return run_fma_scalar(steps);
}

double run_bf16_chains([[maybe_unused]] std::int64_t steps) {
#if defined(__x86_64__)
  return run_dpbf16_avx512(steps);
#else
  return 0;
#endif
}

bool multiplies_pairs(const tile::Kernel& kernel) { return kernel.target == "avx512_bf16"; }

double run_ceiling(const tile::Kernel& kernel, std::int64_t steps) {
  if (multiplies_pairs(kernel)) return run_bf16_chains(steps);
  if (kernel.accumulator == DType::f32) return run_fma_chains(isa_of(kernel.target), steps);
  return run_s8_chains(choose_s8_step(platform::cpu_features(), kernel.target), steps);
}

double run_s8_chains([[maybe_unused]] S8Step step, [[maybe_unused]] std::int64_t steps) {
#if defined(__x86_64__)
  switch (step) {
    case S8Step::madd_avx2:
      return run_madd_avx2(steps);
    case S8Step::madd_avx512:
      return run_madd_avx512(steps);
    case S8Step::dpbusd_avx:
      return run_dpbusd_avx(steps);
    case S8Step::dpbusd_avx512:
      return run_dpbusd_avx512(steps);
    case S8Step::none:
      break;
  }
#endif
  return 0;
}

}  // namespace tandem::bench
