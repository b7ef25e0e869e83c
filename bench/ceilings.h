// SPDX-License-Identifier: Apache-2.0
//
// Ceilings: what the arithmetic units give when nothing is loaded or stored, by loops of
// independent chains in registers. Ratios in the tables are to these, measured in the same round.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/cpu_features.h"
#include "tile/kernel.h"

namespace tandem::bench {

/// Vector widths that a kernel target may use.
enum class Isa : std::uint8_t { scalar, avx2, avx512, neon };

/// By name of a kernel target: "avx512_vnni" is avx512.
[[nodiscard]] Isa isa_of(std::string_view target);

/// Ways to multiply s8 and add in s32 without ever rounding or saturating.
enum class S8Step : std::uint8_t {
  none,           ///< no loop for this CPU
  madd_avx2,      ///< vpmaddwd + vpaddd on 256 bits
  madd_avx512,    ///< the same on 512 bits
  dpbusd_avx,     ///< vpdpbusd on 256 bits (AVX-VNNI)
  dpbusd_avx512,  ///< vpdpbusd on 512 bits (AVX-512 VNNI)
};
[[nodiscard]] std::string_view name(S8Step step);

/// The fastest step of this CPU that a kernel target may use; "auto" may use all.
[[nodiscard]] S8Step choose_s8_step(const base::CpuFeatures& cpu, std::string_view target);

/// Each runs `steps` rounds of 12 independent chains and returns the operations done: 2 per
/// multiply-add, whatever its type. The CPU must have the instructions.
double run_fma_chains(Isa isa, std::int64_t steps);
double run_s8_chains(S8Step step, std::int64_t steps);
/// By vdpbf16ps on 512 bits: of kernels that use it.
double run_bf16_chains(std::int64_t steps);
[[nodiscard]] bool multiplies_pairs(const tile::Kernel& kernel);

/// The loop that bounds this kernel: the same arithmetic with the same vectors.
double run_ceiling(const tile::Kernel& kernel, std::int64_t steps);

}  // namespace tandem::bench
