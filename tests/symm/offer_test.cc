// SPDX-License-Identifier: Apache-2.0
//
// Settling offers: every rank comes to the same conclusion, whatever the bytes say.
#include "symm/offer.h"

#include <cstring>

#include <gmock/gmock.h>

namespace tandem::symm {
namespace {

using ::testing::HasSubstr;

Offer terms(std::int64_t first, Collective what = Collective::barrier) {
  return Offer::of(what, Terms{first});
}
Offer refusal(const char* reason) {
  return Offer::of(Collective::barrier, Status(StatusCode::kOutOfMemory, reason));
}

TEST(Offers, OfRanksThatAgreeAreTheirTerms) {
  const std::vector<Offer> offers{terms(5), terms(6)};
  auto settled = settle(offers, 1);
  ASSERT_TRUE(settled.ok());
  EXPECT_EQ((*settled)[0][0], 5);
  EXPECT_EQ((*settled)[1][0], 6);
}

TEST(Offers, ARefusalReachesEveryRankWithItsCode) {
  const std::vector<Offer> offers{terms(1), refusal("too large"), refusal("too small")};
  for (int own : {0, 1, 2})
    EXPECT_EQ(settle(offers, own).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(settle(offers, 0).status().message(), "rank 1 refuses: too large");
  EXPECT_EQ(settle(offers, 1).status().message(), "too large");
  EXPECT_EQ(settle(offers, 2).status().message(), "too small");
}

TEST(Offers, OfDifferentCollectivesAreAMismatchOnEveryRank) {
  const std::vector<Offer> offers{terms(1), terms(1), terms(1, Collective::create_window)};
  for (int own : {0, 1, 2}) {
    const Status status = settle(offers, own).status();
    EXPECT_EQ(status.code(), StatusCode::kMismatch);
    EXPECT_THAT(status.message(), HasSubstr("rank 2 makes the window of an operator"));
  }
  // A refusal goes first: who refuses does not know what the others do.
  const std::vector<Offer> mixed{terms(1, Collective::create_window), refusal("no")};
  EXPECT_EQ(settle(mixed, 0).status().code(), StatusCode::kOutOfMemory);
}

TEST(Offers, OfAnyBytesGiveAnAnswer) {
  for (int byte : {0x00, 0x01, 0x7f, 0xff}) {
    std::vector<Offer> offers(3);
    std::memset(static_cast<void*>(&offers[1]), byte, sizeof(Offer));
    for (int own : {0, 1, 2}) {
      const auto settled = settle(offers, own);
      EXPECT_LE(settled.status().message().size(), 4096u);
      EXPECT_FALSE(describe(offers[1].what).empty());
    }
  }
}

}  // namespace
}  // namespace tandem::symm
