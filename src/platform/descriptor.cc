// SPDX-License-Identifier: Apache-2.0
//
// Descriptor numbers, by fcntl.
#include "platform/descriptor.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace tandem::platform {

int above_standard(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(fd);
  errno = error;
  return moved;
}

void occupy_standard() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number, so this one. Without /dev/null it stays closed, as it was.
    (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace tandem::platform
