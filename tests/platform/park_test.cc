// SPDX-License-Identifier: Apache-2.0
//
// Parking and timed sleep.
#include "platform/park.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tandem::platform {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Park, ReturnsAtOnceWhenTheWordDiffers) {
  std::atomic<std::uint32_t> word{1};
  park(word, 0, seconds(60));
  park(word, 1, milliseconds(0));
  park(word, 1, milliseconds(-5));
}

TEST(Park, EndsAtTheTimeout) {
  std::atomic<std::uint32_t> word{1};
  const auto start = Clock::now();
  while (Clock::now() - start < milliseconds(20)) park(word, 1, milliseconds(30));
  EXPECT_GE(Clock::now() - start, milliseconds(20));
}

TEST(Park, UnparkWakesAll) {
  std::atomic<std::uint32_t> word{0};
  std::atomic<int> woken{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 4; ++i) {
    sleepers.emplace_back([&] {
      while (word.load() == 0) park(word, 0, seconds(60));
      woken.fetch_add(1);
    });
  }
  sleep_until(Clock::now() + milliseconds(20));
  EXPECT_EQ(woken.load(), 0);
  word.store(1);
  unpark_all(word);
  for (std::thread& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(woken.load(), 4);
}

TEST(SleepUntil, IsNeverEarly) {
  for (int i = 0; i < 20; ++i) {
    const auto moment = Clock::now() + std::chrono::microseconds(300);
    sleep_until(moment);
    EXPECT_GE(Clock::now(), moment);
  }
  sleep_until(Clock::now() - seconds(1));
  sleep_until(Clock::time_point::min());
}

}  // namespace
}  // namespace tandem::platform
