// SPDX-License-Identifier: Apache-2.0
//
// Descriptor numbers when the standard ones are closed: each test runs in a forked child without
// them, whose exit code says what it found.
#include "platform/descriptor.h"

#include <cerrno>
#include <functional>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/local_socket.h"
#include "platform/memory.h"
#include "platform/process_group.h"
#include "platform/shared_memory.h"

namespace tandem::platform {
namespace {

using std::chrono::seconds;

/// Which of 0, 1 and 2 are open, a bit each.
int standard_open() {
  int open = 0;
  for (int fd = 0; fd <= 2; ++fd) open |= fcntl(fd, F_GETFD) >= 0 ? 1 << fd : 0;
  return open;
}

/// The bits that are open after `work` in a process where none was; more than 7: `work` failed.
int taken_by(const std::function<bool()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    for (int fd = 0; fd <= 2; ++fd) close(fd);
    const bool worked = work();
    _exit(worked ? standard_open() : 8);
  }
  int end = 0;
  EXPECT_EQ(waitpid(child, &end, 0), child);
  EXPECT_TRUE(WIFEXITED(end)) << end;
  return WEXITSTATUS(end);
}

TEST(Descriptor, OneThatIsStandardIsMoved) {
  EXPECT_EQ(taken_by([] {
              const int fd = above_standard(open("/dev/zero", O_RDONLY));
              char byte = 1;
              return fd > 2 && fcntl(fd, F_GETFD) == FD_CLOEXEC && read(fd, &byte, 1) == 1;
            }),
            0);
  EXPECT_EQ(above_standard(17), 17);
  errno = EPERM;
  EXPECT_EQ(above_standard(-1), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST(Descriptor, MemoryFilesAreNeverStandard) {
  EXPECT_EQ(taken_by([] {
              static auto file = SharedFile::create();
              if (!file.ok() || !file->reserve(0, page_size()).ok()) return false;
              static auto adopted = SharedFile::adopt(file->fd(), 1);
              return adopted.ok();
            }),
            0);
}

TEST(Descriptor, SocketsAndWhatTheyCarryAreNeverStandard) {
  EXPECT_EQ(taken_by([] {
              const auto name = random_name();
              static auto listener = LocalListener::create(*name);
              static LocalSocket out;
              if (!listener.ok() || !out.connect(*name).ok()) return false;
              static auto in = listener->accept();
              if (!in.ok() || !*in || !(*in)->send_descriptor(out.fd()).ok()) return false;
              const auto got = out.receive_descriptor(Deadline::after(seconds(20)));
              return got.ok() && *got > 2;
            }),
            0);
}

TEST(Descriptor, HandlesOfProcessesAreNeverStandard) {
  EXPECT_EQ(taken_by([] {
              static ProcessGroup group;
              return group.start({{.command = {"sleep", "60"}}}, -1).ok() && standard_open() == 0;
            }),
            0);
}

TEST(Descriptor, APlaceThatIsKeptIsGoodForNothing) {
  EXPECT_EQ(taken_by([] {
              occupy_standard();
              char byte = 0;
              return standard_open() == 7 && read(0, &byte, 1) < 0 && write(1, &byte, 1) < 0 &&
                     write(2, &byte, 1) < 0;
            }),
            7);
}

}  // namespace
}  // namespace tandem::platform
