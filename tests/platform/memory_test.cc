// SPDX-License-Identifier: Apache-2.0
//
// Memory bounds and page buffers.
#include "platform/memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <gmock/gmock.h>

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
  EXPECT_GE(state.limit, 0);
  EXPECT_GT(peak_rss_mib(), 1);
  EXPECT_GE(page_size(), 4096u);
}

TEST(Memory, CheckNamesNeededAvailableAndRemedy) {
  EXPECT_TRUE(check_memory(1 << 20, 1 << 20, "a test").ok());
  const Status status = check_memory(std::size_t{1} << 50, 0, "a test");
  EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(status.message(), HasSubstr("1125899906842624 bytes"));
  EXPECT_THAT(status.message(), HasSubstr("a test"));
  EXPECT_THAT(status.message(), HasSubstr("leaves"));
  EXPECT_THAT(status.message(), HasSubstr("use smaller shapes"));
  EXPECT_EQ(check_memory(~std::size_t{0}, 0, "all").code(), StatusCode::kOutOfMemory);
}

TEST(PageBuffer, IsZeroedAlignedAndWritable) {
  for (bool huge : {false, true}) {
    for (std::size_t bytes : {std::size_t{1}, std::size_t{4097}, (std::size_t{5} << 20) + 3}) {
      auto buffer = PageBuffer::create(bytes, huge);
      ASSERT_TRUE(buffer.ok()) << buffer.status().message();
      EXPECT_EQ(buffer->size(), bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % page_size(), 0u);
      EXPECT_TRUE(std::all_of(buffer->data(), buffer->data() + bytes,
                              [](std::byte b) { return b == std::byte{0}; }));
      std::memset(buffer->data(), 1, bytes);
    }
  }
}

TEST(PageBuffer, EmptyAndMoved) {
  auto empty = PageBuffer::create(0, true);
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->size(), 0u);
  PageBuffer first = std::move(PageBuffer::create(100, false)).value();
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
    auto buffer = PageBuffer::create(bytes, true);
    ASSERT_FALSE(buffer.ok());
    EXPECT_EQ(buffer.status().code(), StatusCode::kOutOfMemory);
  }
}

}  // namespace
}  // namespace tandem::platform
