// SPDX-License-Identifier: Apache-2.0
//
// World::from_environment(): every way in which the variables of a launch can be wrong.
#include <cstdlib>

#include <gmock/gmock.h>

#include "tandem/world.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

class FromEnvironment : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : {"TANDEM_RANK", "TANDEM_SIZE", "TANDEM_FD", "TANDEM_TIMEOUT_MS"}) {
      unsetenv(name);
    }
  }
  static void set(const char* rank, const char* size, const char* fd) {
    setenv("TANDEM_RANK", rank, 1);
    setenv("TANDEM_SIZE", size, 1);
    setenv("TANDEM_FD", fd, 1);
  }
  static std::string message() {
    auto world = World::from_environment();
    EXPECT_FALSE(world.ok());
    return world.status().message();
  }
};

TEST_F(FromEnvironment, WithoutVariablesTheWorldIsThisProcess) {
  auto world = World::from_environment();
  ASSERT_TRUE(world.ok());
  EXPECT_EQ(world->rank(), 0);
  EXPECT_EQ(world->size(), 1);
  EXPECT_TRUE(world->barrier().ok());
}

TEST_F(FromEnvironment, TimeoutIsRead) {
  setenv("TANDEM_TIMEOUT_MS", "1234", 1);
  auto world = World::from_environment();
  ASSERT_TRUE(world.ok());
  EXPECT_EQ(world->timeout(), std::chrono::milliseconds(1234));
  for (const char* text : {"soon", "0", "-1", "1e3"}) {
    setenv("TANDEM_TIMEOUT_MS", text, 1);
    EXPECT_THAT(message(), HasSubstr(std::string("TANDEM_TIMEOUT_MS is '") + text + "'"));
  }
}

TEST_F(FromEnvironment, AllThreeVariablesOrNone) {
  setenv("TANDEM_RANK", "0", 1);
  EXPECT_THAT(message(), HasSubstr("TANDEM_SIZE is missing"));
  setenv("TANDEM_SIZE", "1", 1);
  EXPECT_THAT(message(), HasSubstr("TANDEM_FD is missing"));
}

TEST_F(FromEnvironment, NumbersAreChecked) {
  set("0", "many", "3");
  EXPECT_THAT(message(), HasSubstr("TANDEM_SIZE is 'many'"));
  set("0", "65", "3");
  EXPECT_THAT(message(), HasSubstr("1..64"));
  set("2", "2", "3");
  EXPECT_THAT(message(), HasSubstr("TANDEM_RANK is '2', expected an integer in 0..1"));
  set("0", "2", "x");
  EXPECT_THAT(message(), HasSubstr("TANDEM_FD is 'x'"));
  set("0", "2", "977");
  EXPECT_THAT(message(), HasSubstr("descriptor 977"));
}

}  // namespace
}  // namespace tandem
