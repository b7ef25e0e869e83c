// SPDX-License-Identifier: Apache-2.0
//
// Anonymous files: reserve, map, release, and the locks that tell who lives.
#include "platform/shared_memory.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

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
  SharedFile file = make();
  // As much as a file may hold: more than any machine has, and refused before it takes any.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = file.reserve(0, 2 << 20);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(), HasSubstr("ulimit -f"));
  EXPECT_EQ(file.reserved_bytes(), 0u);
}

TEST(SharedFile, LocksBelongToTheDescription) {
  SharedFile first = make();
  ASSERT_TRUE(first.reserve(0, page_size()).ok());
  auto lock = first.lock_byte(5);
  ASSERT_TRUE(lock.ok());
  EXPECT_TRUE(*lock);
  EXPECT_FALSE(first.locked_by_other(5)) << "its own lock is not another's";
  {
    auto second = SharedFile::adopt(first.fd(), page_size());
    ASSERT_TRUE(second.ok()) << second.status().message();
    EXPECT_TRUE(second->locked_by_other(5));
    EXPECT_FALSE(second->locked_by_other(6));
    EXPECT_FALSE(*second->lock_byte(5));
    EXPECT_TRUE(*second->lock_byte(6));
    EXPECT_TRUE(first.locked_by_other(6));
  }
  EXPECT_FALSE(first.locked_by_other(6)) << "closing the description drops its locks";
}

TEST(SharedFile, AdoptChecksWhatItGets) {
  auto missing = SharedFile::adopt(987, 1);
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.status().message(), HasSubstr("987"));
  SharedFile file = make();
  auto small = SharedFile::adopt(file.fd(), 100);
  ASSERT_FALSE(small.ok());
  EXPECT_EQ(small.status().code(), StatusCode::kMismatch);
  EXPECT_THAT(small.status().message(), HasSubstr("holds 0 bytes, at least 100"));
}

}  // namespace
}  // namespace tandem::platform
