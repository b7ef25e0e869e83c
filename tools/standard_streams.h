// SPDX-License-Identifier: Apache-2.0
//
// The command and its three standard streams, any of which may be closed, full or broken: that
// must be an error of the print, never a crash, and never words in a file that was meant for data.
// main() calls the first, whoever prints the second.
#pragma once

#include <cstdio>
#include <string_view>

namespace tandem::tool {

/// Puts /dev/null in place of those that are closed, opened the wrong way round: to read or print
/// fails as before, but no file that is opened later takes the number.
void keep_standard_descriptors();

/// Writes and flushes. False when that fails, with errno; for standard error there is nobody to
/// tell, and the exit code has to do. Allocates nothing for a stream without a buffer.
bool say(std::FILE* stream, std::string_view text);

}  // namespace tandem::tool
