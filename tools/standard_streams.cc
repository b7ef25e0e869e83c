// SPDX-License-Identifier: Apache-2.0
//
// Over the C library's streams: fmt::print() throws when it cannot write.
#include "standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

namespace tandem::tool {

void keep_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number, so this one.
    (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

bool say(std::FILE* stream, std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stream) == text.size() &&
         std::fflush(stream) == 0;
}

}  // namespace tandem::tool
