// SPDX-License-Identifier: Apache-2.0
//
// Which disagreements between call headers are found, and that the message names both sides.
#include "stream/call_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::stream {
namespace {

using testing::HasSubstr;

CallHeader header() { return {.call = 5, .ranks = 3, .k = 64, .rows = {10, 20, 30}}; }

TEST(CallHeader, EqualHeadersAgree) { EXPECT_TRUE(compare_headers(header(), 0, header(), 1).ok()); }

TEST(CallHeader, EveryFieldIsCompared) {
  const auto expect_mismatch = [](CallHeader theirs, const char* what, const char* mine,
                                  const char* other) {
    const Status status = compare_headers(header(), 0, theirs, 2);
    EXPECT_EQ(status.code(), StatusCode::kMismatch);
    EXPECT_THAT(status.message(), HasSubstr(what));
    EXPECT_THAT(status.message(), HasSubstr(std::string("rank 0 has ") + mine));
    EXPECT_THAT(status.message(), HasSubstr(std::string("rank 2 has ") + other));
  };
  CallHeader theirs = header();
  theirs.call = 6;
  expect_mismatch(theirs, "call number", "5", "6");
  theirs = header();
  theirs.k = 65;
  expect_mismatch(theirs, "K", "64", "65");
  theirs = header();
  theirs.ranks = 4;
  expect_mismatch(theirs, "number of ranks", "3", "4");
  theirs = header();
  theirs.phase = 1;
  expect_mismatch(theirs, "kind of call", "0", "1");
  theirs = header();
  theirs.rows[2] = 31;
  expect_mismatch(theirs, "rows of rank 2", "30", "31");
}

}  // namespace
}  // namespace tandem::stream
