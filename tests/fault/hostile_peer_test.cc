// SPDX-License-Identifier: Apache-2.0
//
// A peer that does what it must not with the memory that ranks share: cuts the file short,
// scribbles over the control block. The others return right results or errors, and never a signal.
#include <cerrno>

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/shared_memory.h"
#include "symm/world.h"
#include "symm/world_memory.h"
#include "tests/symm/ranks.h"

namespace tandem::symm {
namespace {

using std::chrono::milliseconds;
using testing::far;

TEST(HostilePeer, CannotChangeTheLengthOfTheFile) {
  auto memory = WorldMemory::create(1, /*locks=*/true);
  ASSERT_TRUE(memory.ok());
  const int fd = (*memory)->file().fd();
  auto world = join_world(0, 1, fd, milliseconds(20000));
  ASSERT_TRUE(world.ok()) << world.status().message();
  auto window = (*world)->create_window({.bytes = 1 << 20, .counters = 1});
  ASSERT_TRUE(window.ok());
  const pid_t peer = fork();
  if (peer == 0) {
    const bool refused =
        ftruncate(fd, 0) != 0 && errno == EPERM && ftruncate(fd, 4096) != 0 && errno == EPERM;
    _exit(refused ? 0 : 1);
  }
  int end = 0;
  ASSERT_EQ(waitpid(peer, &end, 0), peer);
  EXPECT_EQ(end, 0);
  (*window)->data(0)[(1 << 20) - 1] = std::byte{1};
  EXPECT_TRUE((*world)->barrier().ok());
}

TEST(HostilePeer, ASizeThatIsOverwrittenDoesNoHarm) {
  const int fd = make_rendezvous(1).value();
  auto world = join_world(0, 1, fd, milliseconds(20000));
  ASSERT_TRUE(world.ok()) << world.status().message();
  auto scribbler = WorldMemory::adopt(fd, 1);
  ASSERT_TRUE(scribbler.ok());
  for (std::uint32_t size : {0u, 65u, 1000000u, ~0u}) {
    (*scribbler)->control().size = size;
    (*scribbler)->ring_all();
    EXPECT_TRUE((*world)->barrier().ok()) << size;
    auto window = (*world)->create_window({.bytes = 100, .counters = 1});
    ASSERT_TRUE(window.ok()) << size << ": " << window.status().message();
    (*window)->notify(0, 0);
    EXPECT_TRUE((*window)->wait_until(0, 1, {.rank = 0}, far()).ok());
    EXPECT_FALSE(join_world(0, 1, fd, milliseconds(100)).ok());
  }
  const std::size_t windows = (*scribbler)->file().reserved_bytes();
  EXPECT_EQ(windows, WorldMemory::control_bytes()) << "windows must have given their memory back";
  (*scribbler)->control().failure.chosen = 77;
  EXPECT_EQ((*world)->barrier().code(), StatusCode::kInternal);
  platform::close_descriptor(fd);
}

}  // namespace
}  // namespace tandem::symm
