// SPDX-License-Identifier: Apache-2.0
//
// The table row of the AVX-512 VNNI target; empty where the build has none. May be called anywhere.
#pragma once

#include <span>

#include "tile/kernel.h"

namespace tandem::tile {

[[nodiscard]] std::span<const Kernel> avx512_vnni_kernels();

/// What the target needs of a CPU; kernel_table.cc.
bool runs_avx512_vnni(const base::CpuFeatures& cpu, std::string* why);

}  // namespace tandem::tile
