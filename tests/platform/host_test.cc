// SPDX-License-Identifier: Apache-2.0
//
// What a host is called, and that a process has one place.
#include "platform/host.h"

#include <gmock/gmock.h>

namespace tandem::platform {
namespace {

TEST(Host, HasANameAndInterfaces) {
  EXPECT_FALSE(host_name().empty());
  EXPECT_FALSE(network_interfaces().empty());
}

TEST(Locality, IsTheSameForOneProcessAndUnknownIsNobodys) {
  const Locality here = locality();
  if (here.known == 0) GTEST_SKIP() << "no /proc";
  EXPECT_TRUE(here.same_as(locality()));
  Locality other = here;
  other.network += 1;
  EXPECT_FALSE(here.same_as(other));
  other = here;
  other.user += 1;
  EXPECT_FALSE(here.same_as(other));
  EXPECT_FALSE(Locality().same_as(Locality()));
}

}  // namespace
}  // namespace tandem::platform
