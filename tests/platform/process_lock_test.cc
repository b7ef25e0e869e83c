// SPDX-License-Identifier: Apache-2.0
//
// Locks that tell who is alive: one holder each, dropped by the end of the process that took it,
// whatever that process has forked.
#include "platform/process_lock.h"

#include <algorithm>
#include <optional>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/memory.h"
#include "platform/shared_memory.h"

namespace tandem::platform {
namespace {

struct File {
  File() { EXPECT_TRUE(file.reserve(0, page_size()).ok()); }
  ProcessLock take(int index) const { return ProcessLock::take(file.fd(), index).value(); }
  SharedFile file = SharedFile::create().value();
};

TEST(ProcessLock, HasOneHolder) {
  File f;
  EXPECT_FALSE(f.file.locked(5));
  {
    const ProcessLock lock = f.take(5);
    EXPECT_TRUE(lock.held());
    EXPECT_TRUE(f.file.locked(5));
    EXPECT_FALSE(f.file.locked(6));
    EXPECT_FALSE(f.take(5).held());
    const ProcessLock next = f.take(6);
    EXPECT_TRUE(next.held());
    auto other = SharedFile::adopt(f.file.fd(), page_size());
    ASSERT_TRUE(other.ok()) << other.status().message();
    EXPECT_TRUE(other->locked(5) && other->locked(6));
  }
  EXPECT_FALSE(f.file.locked(5) || f.file.locked(6));
  EXPECT_FALSE(ProcessLock::take(987, 0).ok());
}

TEST(ProcessLock, IsNotTheChildsAndNotDroppedByTheChild) {
  File f;
  std::optional<ProcessLock> lock = f.take(0);
  const pid_t child = fork();
  if (child == 0) {
    // The child takes one of its own, which must survive the end of what it inherited.
    const ProcessLock own = f.take(1);
    lock.reset();
    _exit(own.held() && f.file.locked(1) ? 0 : 1);
  }
  int end = 0;
  ASSERT_EQ(waitpid(child, &end, 0), child);
  EXPECT_EQ(end, 0);
  EXPECT_TRUE(f.file.locked(0));
  EXPECT_FALSE(f.file.locked(1));
}

TEST(ProcessLock, EndsWithItsProcessThoughAChildLivesOn) {
  File f;
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t holder = fork();
  if (holder == 0) {
    const ProcessLock lock = f.take(0);
    const pid_t child = fork();
    if (child == 0) {
      (void)!write(told[1], &child, sizeof child);  // it runs: its side of fork() is done
      ::pause();
      _exit(0);
    }
    (void)!write(told[1], &child, sizeof child);
    ::pause();
    _exit(0);
  }
  pid_t grandchild = 0;
  for (int i = 0; i < 2; ++i) {
    pid_t said = 0;
    ASSERT_EQ(read(told[0], &said, sizeof said), static_cast<ssize_t>(sizeof said));
    grandchild = std::max(grandchild, said);
  }
  EXPECT_TRUE(f.file.locked(0));
  kill(holder, SIGKILL);
  ASSERT_EQ(waitpid(holder, nullptr, 0), holder);
  EXPECT_FALSE(f.file.locked(0)) << "the child holds its dead parent's lock";
  kill(grandchild, SIGKILL);
  close(told[0]);
  close(told[1]);
}

}  // namespace
}  // namespace tandem::platform
