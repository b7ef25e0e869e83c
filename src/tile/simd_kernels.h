// SPDX-License-Identifier: Apache-2.0
//
// The table rows of the vector targets. Each function is empty where the build has no such target.
// These functions, and nothing else of simd_kernels.cc, may be called on any CPU.
#pragma once

#include <span>

#include "tile/kernel.h"

namespace tandem::tile {

[[nodiscard]] std::span<const Kernel> avx512_kernels();
[[nodiscard]] std::span<const Kernel> avx2_kernels();
[[nodiscard]] std::span<const Kernel> neon_kernels();

/// Gives a kernel what does not depend on its multiply: the conversions of the plain kernel of its
/// type whose tiles are as wide.
inline void take_conversions(std::span<const Kernel> plain, Kernel& kernel) {
  for (const Kernel& other : plain) {
    if (other.type != kernel.type || other.nr != kernel.nr) continue;
    kernel.store = other.store;
    kernel.dequantise = other.dequantise;
    kernel.quantise = other.quantise;
  }
}

/// What each target needs of a CPU; kernel_table.cc. The table rows point at these.
bool runs_avx512(const base::CpuFeatures& cpu, std::string* why);
bool runs_avx2(const base::CpuFeatures& cpu, std::string* why);
bool runs_neon(const base::CpuFeatures& cpu, std::string* why);

}  // namespace tandem::tile
