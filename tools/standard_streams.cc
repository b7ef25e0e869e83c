// SPDX-License-Identifier: Apache-2.0
//
// Over the C library's streams: fmt::print() throws when it cannot write.
#include "standard_streams.h"

#include <unistd.h>

namespace tandem::tool {

void keep_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    const int copy = dup(fd);
    if (copy >= 0) {
      close(copy);
      continue;
    }
    // The lowest free number, so this one; for as long as the command runs.
    (void)!std::fopen("/dev/null", fd == STDIN_FILENO ? "w" : "r");
  }
}

bool say(std::FILE* stream, std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stream) == text.size() &&
         std::fflush(stream) == 0;
}

}  // namespace tandem::tool
