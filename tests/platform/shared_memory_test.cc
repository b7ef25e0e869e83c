// SPDX-License-Identifier: Apache-2.0
//
// Anonymous files: reserve, map, release, and a length that nobody changes.
#include "platform/shared_memory.h"

#include <cerrno>
#include <limits>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "platform/memory.h"

namespace tandem::platform {
namespace {

using ::testing::HasSubstr;

SharedFile make() {
  auto file = SharedFile::create();
  EXPECT_TRUE(file.ok()) << file.status().message();
  return std::move(file).value();
}

TEST(SharedFile, TwoMappingsSeeTheSameMemory) {
  SharedFile file = make();
  const std::size_t page = page_size();
  ASSERT_TRUE(file.reserve(page, 2 * page).ok());
  EXPECT_EQ(file.reserved_bytes(), 2 * page);
  auto one = file.map(page, 2 * page);
  auto other = file.map(2 * page, page);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_TRUE(one->touch(0, 2 * page).ok());
  EXPECT_EQ(one->data()[page], std::byte{0});
  one->data()[page] = std::byte{7};
  EXPECT_EQ(other->data()[0], std::byte{7});
  EXPECT_TRUE(one->touch(page, page).ok());
  EXPECT_EQ(other->data()[0], std::byte{7}) << "touching must keep contents";
  file.release(page, 2 * page);
  EXPECT_EQ(file.reserved_bytes(), 0u);
}

TEST(SharedFile, ExhaustionIsAnError) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  auto file = SharedFile::create();
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE(file->reserve(0, 1 << 20).ok());
  file->release(0, 1 << 20);
  const Status status = file->reserve(0, 2 << 20);
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(), HasSubstr("ulimit -f"));
  EXPECT_EQ(file->reserved_bytes(), 0u);
  // A mapping beyond the end would be a SIGBUS later.
  EXPECT_EQ(file->map(1 << 20, page_size()).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(file->map(~std::size_t{0} - 4095, 8192).status().code(), StatusCode::kOutOfMemory);
}

TEST(SharedFile, RangesFarApartAreCheap) {
  SharedFile file = make();
  const std::size_t page = page_size(), last = SharedFile::kBytes - page;
  ASSERT_TRUE(file.reserve(last, page).ok());
  auto mapping = file.map(last, page);
  ASSERT_TRUE(mapping.ok()) << mapping.status().message();
  EXPECT_TRUE(mapping->touch(0, page).ok());
  mapping->data()[page - 1] = std::byte{1};
  EXPECT_EQ(file.reserved_bytes(), page);
}

TEST(SharedFile, NobodyChangesItsLength) {
  SharedFile file = make();
  auto peer = SharedFile::adopt(file.fd(), page_size());
  ASSERT_TRUE(peer.ok()) << peer.status().message();
  for (int fd : {file.fd(), peer->fd()}) {
    for (off_t length : {off_t{0}, off_t{4096}, std::numeric_limits<off_t>::max()}) {
      EXPECT_EQ(ftruncate(fd, length), -1) << length;
      EXPECT_EQ(errno, EPERM) << length;
    }
    EXPECT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
  }
}

TEST(SharedFile, SignalsDoNotHoldAReservationUp) {
  // A timer that fires faster than the kernel takes a piece of memory: each piece is undone.
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
  const itimerval often{.it_interval = {0, 300}, .it_value = {0, 300}}, never{};
  SharedFile file = make();
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  setitimer(ITIMER_REAL, &often, nullptr);
  const Status status = file.reserve(0, kBytes);
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(file.reserved_bytes(), kBytes);
}

TEST(SharedFile, AdoptChecksWhatItGets) {
  auto missing = SharedFile::adopt(987, 1);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kIo);
  EXPECT_THAT(missing.status().message(), HasSubstr("987"));
  const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  auto open_ended = SharedFile::adopt(fd, 100);
  ASSERT_FALSE(open_ended.ok()) << "whoever can cut the file short can kill by SIGBUS";
  EXPECT_EQ(open_ended.status().code(), StatusCode::kMismatch);
  ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_TRUE(SharedFile::adopt(fd, 100).ok());
  auto small = SharedFile::adopt(fd, 5000);
  ASSERT_FALSE(small.ok());
  EXPECT_EQ(small.status().code(), StatusCode::kMismatch);
  EXPECT_THAT(small.status().message(), HasSubstr("has 4096 bytes, and at least 5000"));
  close(fd);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  EXPECT_EQ(SharedFile::adopt(pipe_ends[0], 1).status().code(), StatusCode::kMismatch);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

}  // namespace
}  // namespace tandem::platform
