// SPDX-License-Identifier: Apache-2.0
//
// Names of files that are being written. A file that is not whole yet has a temporary name; should
// a signal end the process, the names in this register are removed first. matrix_file.cc uses it.
#pragma once

#include <string>

namespace tandem::tool {

/// Registers `path` until forget_partial_file(). Returns its place, -1 when the register is full
/// or the path too long: then only a signal could leave the file behind.
[[nodiscard]] int remember_partial_file(const std::string& path);
void forget_partial_file(int place);

}  // namespace tandem::tool
