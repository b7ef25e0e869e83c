// SPDX-License-Identifier: Apache-2.0
//
// The table rows of the scalar target: any CPU runs them. See scalar_kernel.cc.
#pragma once

#include <span>

#include "tile/kernel.h"

namespace tandem::tile {

[[nodiscard]] std::span<const Kernel> scalar_kernels();
std::span<const Kernel> scalar_s8_kernels();

}  // namespace tandem::tile
