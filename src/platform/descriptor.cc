// SPDX-License-Identifier: Apache-2.0
//
// Descriptor numbers, by fcntl and /proc/self/fd.
#include "platform/descriptor.h"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
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

bool above_standard(int (&ends)[2]) {
  ends[0] = above_standard(ends[0]);
  const int error = errno;
  ends[1] = above_standard(ends[1]);
  if (ends[0] >= 0 && ends[1] >= 0) return true;
  const int why = ends[0] < 0 ? error : errno;
  for (const int end : ends) {
    if (end >= 0) close(end);
  }
  errno = why;
  return false;
}

Result<int> reopen(int fd) {
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  const int own = above_standard(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (own >= 0) return own;
  const int error = errno;
  if (fcntl(fd, F_GETFD) < 0) {
    return Status(StatusCode::kIo,
                  fmt::format("descriptor {} is not open in this process; start the ranks with "
                              "`tandem launch`, and let none close what it inherits",
                              fd));
  }
  if (access("/proc/self/fd", F_OK) != 0) {
    return Status(StatusCode::kIo,
                  fmt::format("cannot open {}: {}; /proc is missing here, and ranks that are "
                              "processes need it: mount it with `mount -t proc proc /proc`",
                              path, strerrordesc_np(error)));
  }
  return Status(StatusCode::kIo, fmt::format("cannot open {}, the file behind descriptor {}: {}",
                                             path, fd, strerrordesc_np(error)));
}

void occupy_standard() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number, so this one. Without /dev/null it stays closed, as it was.
    (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace tandem::platform
