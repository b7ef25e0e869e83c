// SPDX-License-Identifier: Apache-2.0
//
// The knob behind the delays at protocol steps.
#include "platform/delay.h"

#include <gmock/gmock.h>

#include "platform/park.h"

namespace tandem::platform {
namespace {

Clock::duration time_of_steps(int steps) {
  const auto start = Clock::now();
  for (int i = 0; i < steps; ++i) protocol_step("step");
  return Clock::now() - start;
}

TEST(Delays, HoldStepsUpWhenSwitchedOn) {
  ASSERT_TRUE(set_delays("42:2000").ok());
  // 50 steps draw 25 delays of 1 ms each on average.
  EXPECT_GE(time_of_steps(50), std::chrono::milliseconds(3));
  set_delays(0, 0);
  EXPECT_EQ(detail::delay_max_us.load(), 0u);
}

TEST(Delays, TextIsChecked) {
  for (const char* text : {"", "5", "x:5", "5:x", "5:5x", ":", "1:2000000", "-1:5"}) {
    const Status status = set_delays(text);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), ::testing::HasSubstr("<seed>:<max_us>"));
  }
  EXPECT_EQ(detail::delay_max_us.load(), 0u) << "a refused text must change nothing";
}

TEST(RandomBits, DifferForEachInput) {
  EXPECT_NE(random_bits(0), 0u);
  EXPECT_NE(random_bits(0), random_bits(1));
  // splitmix64 seeded with 0 begins with this number.
  EXPECT_EQ(random_bits(0), 0xe220a8397b1dcdafu);
}

}  // namespace
}  // namespace tandem::platform
