// SPDX-License-Identifier: Apache-2.0
//
// self_check(): whether a kernel gives the scalar kernel's bits on this very CPU, for those whose
// tests have never run on one of its kind (Kernel::proof): compilers, emulators and manuals may be
// wrong. select_kernel() asks for it before such a kernel is used.
#pragma once

#include "tandem/status.h"
#include "tile/kernel.h"

namespace tandem::tile {

/// Multiplies a few random tiles with their edges and extremes, converts them to every output type,
/// and compares with the scalar kernel. Takes less than a millisecond. The CPU must have the
/// kernel's instructions. Errors: kUnsupported, with the first difference and both values;
/// kOutOfMemory.
[[nodiscard]] Status self_check(const Kernel& kernel);

/// self_check() of a row of kernel_table(), made by the first call of the process; later ones get
/// its verdict. Thread-safe.
[[nodiscard]] Status self_check_once(const Kernel& kernel);

}  // namespace tandem::tile
