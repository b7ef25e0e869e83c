// SPDX-License-Identifier: Apache-2.0
//
// Which kernel of the table an operator uses on this CPU: by features, and by a self-check of those
// that are not known to be right on such a CPU. Used by PackedWeights and system_info().
#pragma once

#include <string_view>

#include "tandem/status.h"
#include "tile/kernel.h"

namespace tandem::op {

/// Ok for a kernel whose tests have passed on hardware of its kind, else the verdict of its
/// self-check, made once per process. TANDEM_TEST_DISTRUST names a target whose self-check fails
/// whatever it does. Errors: kUnsupported, kOutOfMemory.
[[nodiscard]] Status trust_kernel(const tile::Kernel& kernel);

/// Of this CPU's kernels; "auto" for the best. Errors: tile::select_kernel().
[[nodiscard]] Result<const tile::Kernel*> choose_kernel(DType type, std::string_view target);

}  // namespace tandem::op
