// SPDX-License-Identifier: Apache-2.0
//
// The table rows of the targets whose CPUs multiply groups of s8, or pairs of bf16, and add them
// up: one type each. Each function is empty where the build has no such target, and may be called
// on any CPU.
#pragma once

#include <span>

#include "tile/kernel.h"

namespace tandem::tile {

[[nodiscard]] std::span<const Kernel> avx512_bf16_kernels();
[[nodiscard]] std::span<const Kernel> avx512_vnni_kernels();
[[nodiscard]] std::span<const Kernel> avx_vnni_kernels();
[[nodiscard]] std::span<const Kernel> neon_bf16_kernels();
[[nodiscard]] std::span<const Kernel> neon_dot_kernels();
[[nodiscard]] std::span<const Kernel> neon_i8mm_kernels();

/// What each target needs of a CPU; kernel_table.cc.
bool runs_avx512_bf16(const base::CpuFeatures& cpu, std::string* why);
bool runs_avx512_vnni(const base::CpuFeatures& cpu, std::string* why);
bool runs_avx_vnni(const base::CpuFeatures& cpu, std::string* why);
bool runs_neon_bf16(const base::CpuFeatures& cpu, std::string* why);
bool runs_neon_dot(const base::CpuFeatures& cpu, std::string* why);
bool runs_neon_i8mm(const base::CpuFeatures& cpu, std::string* why);

}  // namespace tandem::tile
