// SPDX-License-Identifier: Apache-2.0
//
// Memory bounds and page buffers.
#include "platform/memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/page_buffer.h"

namespace tandem::platform {
namespace {

using ::testing::HasSubstr;

TEST(Memory, StateIsPlausible) {
  const MemoryState state = memory_state();
  EXPECT_GT(state.total, 0);
  EXPECT_GT(state.available, 0);
  EXPECT_LE(state.available, state.total);
  EXPECT_GT(state.touchable, 0);
  EXPECT_LE(state.touchable, state.available);
  EXPECT_GE(state.container_limit, 0);
  EXPECT_GT(state.mappable, 0);
  EXPECT_LE(state.mappable_privately, state.mappable);
  EXPECT_GT(peak_rss_mib(), 1);
  EXPECT_GE(page_size(), 4096u);
}

TEST(Memory, CheckNamesNeededAvailableAndRemedy) {
  EXPECT_TRUE(check_memory({.touched = 1 << 20, .mapped = 1 << 20, .what = "a test"}).ok());
  const Status status = check_memory({.touched = std::size_t{1} << 50, .what = "a test"});
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(), HasSubstr("1125899906842624 bytes"));
  EXPECT_THAT(status.message(), HasSubstr("a test"));
  EXPECT_THAT(status.message(), HasSubstr("leaves"));
  EXPECT_THAT(status.message(), HasSubstr("use smaller shapes"));
  EXPECT_EQ(check_memory({.touched = ~std::size_t{0}}).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(check_memory({.touched = 1}, ~std::size_t{0}).code(), StatusCode::kOutOfMemory);
}

/// Runs body() in a child, since a lowered limit lowers everything that comes after.
void in_child(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_EQ(state, 0);
}

TEST(Memory, LimitsOfTheProcessAreItsOwn) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer maps more than any limit would allow";
#endif
  constexpr rlim_t kLimit = rlim_t{64} << 30;
  for (const auto& [resource, limit_name, option] :
       {std::tuple(RLIMIT_AS, "RLIMIT_AS", "ulimit -v"),
        std::tuple(RLIMIT_DATA, "RLIMIT_DATA", "ulimit -d")}) {
    in_child([&, which = resource, limit = limit_name, shell_option = option] {
      const std::int64_t container = memory_state().container_limit;
      const rlimit bound{kLimit, kLimit};
      ASSERT_EQ(setrlimit(which, &bound), 0);
      const MemoryState state = memory_state();
      EXPECT_EQ(state.process_limit, std::int64_t{kLimit});
      EXPECT_EQ(state.process_limit_name, limit);
      EXPECT_EQ(state.container_limit, container);
      // More than the limit may be mapped only where it does not count: shared, under RLIMIT_DATA.
      const MemoryNeed much{.mapped = kLimit, .is_private = true, .what = "a test"};
      const Status status = check_memory(much);
      EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
      EXPECT_THAT(status.message(), HasSubstr(limit));
      EXPECT_THAT(status.message(), HasSubstr(shell_option));
      EXPECT_EQ(check_memory({.mapped = kLimit}).ok(), which == RLIMIT_DATA);
    });
  }
}

TEST(PageBuffer, IsZeroedAlignedAndWritable) {
  for (bool huge : {false, true}) {
    for (std::size_t bytes : {std::size_t{1}, std::size_t{4097}, (std::size_t{5} << 20) + 3}) {
      auto buffer = PageBuffer::create(bytes, huge, "a test");
      ASSERT_TRUE(buffer.ok()) << buffer.status().message();
      EXPECT_EQ(buffer->size(), bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % page_size(), 0u);
      EXPECT_TRUE(std::all_of(buffer->data(), buffer->data() + bytes,
                              [](std::byte b) { return b == std::byte{0}; }));
      std::memset(buffer->data(), 1, bytes);
      EXPECT_TRUE(buffer->touch().ok());
      EXPECT_TRUE(buffer->touch(bytes / 2, bytes - bytes / 2).ok());
      EXPECT_TRUE(std::all_of(buffer->data(), buffer->data() + bytes, [](std::byte b) {
        return b == std::byte{1};
      })) << "touching must leave contents alone";
    }
  }
}

TEST(PageBuffer, EmptyAndMoved) {
  auto empty = PageBuffer::create(0, true, "a test");
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->size(), 0u);
  PageBuffer first = std::move(PageBuffer::create(100, false, "a test")).value();
  const std::byte* data = first.data();
  PageBuffer second = std::move(first);
  EXPECT_EQ(second.data(), data);
  PageBuffer third;
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size(), 100u);
}

TEST(PageBuffer, ExhaustionIsAnError) {
  for (std::size_t bytes : {std::size_t{1} << 50, ~std::size_t{0}}) {
    auto buffer = PageBuffer::create(bytes, true, "a test");
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.status().code(), StatusCode::kOutOfMemory);
  }
}

}  // namespace
}  // namespace tandem::platform
