// SPDX-License-Identifier: Apache-2.0
//
// Environment variables that must be numbers.
#include "platform/environment.h"

#include <cstdlib>

#include <gmock/gmock.h>

namespace tandem::platform {
namespace {

constexpr const char* kName = "TANDEM_TEST_NUMBER";

class EnvInteger : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv(kName); }
};

TEST_F(EnvInteger, UnsetAndEmptyAreAbsent) {
  auto value = env_integer(kName, 0, 10);
  ASSERT_TRUE(value.ok());
  EXPECT_FALSE(value->has_value());
  setenv(kName, "", 1);
  value = env_integer(kName, 0, 10);
  ASSERT_TRUE(value.ok());
  EXPECT_FALSE(value->has_value());
}

TEST_F(EnvInteger, ReadsNumbersInBounds) {
  for (std::int64_t number : {-5, 0, 10}) {
    setenv(kName, std::to_string(number).c_str(), 1);
    auto value = env_integer(kName, -5, 10);
    ASSERT_TRUE(value.ok());
    EXPECT_EQ(*value, number);
  }
}

TEST_F(EnvInteger, ErrorsNameVariableValueAndBounds) {
  for (const char* text :
       {"eleven", "11", "-1", "1.5", "1 ", " 1", "0x1", "99999999999999999999"}) {
    setenv(kName, text, 1);
    auto value = env_integer(kName, 0, 10);
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_EQ(value.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(value.status().message(), ::testing::HasSubstr(kName));
    EXPECT_THAT(value.status().message(), ::testing::HasSubstr(std::string("'") + text + "'"));
    EXPECT_THAT(value.status().message(), ::testing::HasSubstr("0..10"));
  }
}

}  // namespace
}  // namespace tandem::platform
