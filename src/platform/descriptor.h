// SPDX-License-Identifier: Apache-2.0
//
// Which numbers the library's descriptors have. In a program whose standard output was closed
// (`program >&-`) the kernel gives the next file that is opened the number 1, and what the program
// prints then lands in that file: in the memory that ranks share, or in another rank's packet. So
// every call that makes a descriptor is wrapped in above_standard().
#pragma once

#include "tandem/status.h"

namespace tandem::platform {

/// `fd` itself when it is none of 0, 1 and 2; else a duplicate that is not, closed by exec, in
/// place of it. -1 stays -1. errno says why the answer is -1: that of the call that made `fd`, or
/// EMFILE.
[[nodiscard]] int above_standard(int fd);

/// Both ends of a pipe or of a pair of sockets. False, with both closed, where one cannot be moved;
/// errno says why.
[[nodiscard]] bool above_standard(int (&ends)[2]);

/// A descriptor of the file behind `fd` with a description (and therefore locks) of its own, closed
/// by exec. Errors: kIo (not open, no /proc, not to be read and written).
[[nodiscard]] Result<int> reopen(int fd);

/// Puts /dev/null in place of each standard descriptor that is closed, opened the wrong way round:
/// to read or print fails as before, but no file that is opened later takes the number. For a child
/// between fork and exec: it only makes system calls.
void occupy_standard();

}  // namespace tandem::platform
