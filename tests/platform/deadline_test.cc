// SPDX-License-Identifier: Apache-2.0
//
// Deadlines of any timeout that the type can hold: never a wrap-around.
#include "platform/deadline.h"

#include <limits>

#include <gtest/gtest.h>

namespace tandem::platform {
namespace {

using std::chrono::milliseconds;

TEST(Deadline, LiesTheTimeoutAhead) {
  const auto before = Clock::now();
  const Deadline deadline = Deadline::after(milliseconds(1000), milliseconds(500));
  EXPECT_GE(deadline.moment(), before + milliseconds(1500));
  EXPECT_LE(deadline.left(before + milliseconds(1000)), milliseconds(60'000));
  EXPECT_FALSE(deadline.passed(before + milliseconds(1499)));
  EXPECT_TRUE(deadline.passed(deadline.moment()));
  EXPECT_EQ(deadline.left(deadline.moment() + milliseconds(1)).count(), 0);
}

TEST(Deadline, SaturatesAtEveryEnd) {
  const auto year = std::chrono::hours(24 * 365);
  for (const milliseconds most :
       {milliseconds::max(), milliseconds(std::numeric_limits<std::int64_t>::max() / 1'000'000),
        milliseconds(std::numeric_limits<std::int64_t>::max() / 1'000'000 + 1)}) {
    EXPECT_GT(Deadline::after(most).left(), year);
    EXPECT_GT(Deadline::after(most, most).left(), year);
    EXPECT_GT(Deadline::after(milliseconds(0), most).left(), year);
    EXPECT_GT(Deadline::after(most, milliseconds(0)).left(), year);
  }
  EXPECT_TRUE(Deadline::after(milliseconds(-1)).passed());
  EXPECT_TRUE(Deadline::after(milliseconds::min()).passed());
}

}  // namespace
}  // namespace tandem::platform
