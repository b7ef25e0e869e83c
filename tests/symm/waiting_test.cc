// SPDX-License-Identifier: Apache-2.0
//
// The waiting loop on its own, with made-up ranks: orders of events that real ranks produce too
// rarely to test.
#include "symm/waiting.h"

#include <gmock/gmock.h>

#include "symm/window.h"

namespace tandem::symm {
namespace {

using platform::Clock;
using std::chrono::milliseconds;

struct Scene {
  bool delivered = false;
  int asked = 0;
  Doorbell bell;
  FailureChoice choice;
  FailureSlot slots[3];
  FailureRecord record{choice, slots[0], sizeof(FailureSlot), 3};
  std::function<bool()> ready = [this] { return delivered; };
  Awaited awaited = [this](int r) -> std::optional<WaitDetail> {
    if (delivered || r != 1) return std::nullopt;
    return WaitDetail{.rank = 1, .call = 2, .expected = 3, .seen = 0};
  };
  std::function<Loss(int, bool)> gone = [](int, bool) { return Loss(); };

  Status wait_for(milliseconds limit) {
    return wait({.ready = ready,
                 .awaited = awaited,
                 .gone = gone,
                 .bell = bell,
                 .record = record,
                 .rank = 0,
                 .size = 3,
                 .spin = {},
                 .deadline = platform::Deadline::after(limit)});
  }
};

TEST(Waiting, WhatALostRankDeliveredLastStillCounts) {
  Scene scene;
  scene.gone = [&](int r, bool) -> std::string_view {
    if (r != 1) return {};
    scene.delivered = true;  // its last act, between the look at the counter and this question
    return "it left";
  };
  EXPECT_TRUE(scene.wait_for(milliseconds(5000)).ok());
}

TEST(Waiting, OnlyAwaitedRanksCanBeLost) {
  Scene scene;
  scene.gone = [](int r, bool) {
    return r == 2 ? std::string_view("it left") : std::string_view();
  };
  EXPECT_EQ(scene.wait_for(milliseconds(120)).code(), StatusCode::kTimeout);
}

TEST(Waiting, WhoIsLostIsNamedNotWhomItReceivesFor) {
  Scene scene;
  scene.gone = [](int r, bool) { return r == 1 ? Loss("its process ended", 2) : Loss(); };
  const Status status = scene.wait_for(milliseconds(5000));
  ASSERT_EQ(status.code(), StatusCode::kPeerLost);
  EXPECT_EQ(status.wait()->rank, 2);
  EXPECT_EQ(
      status.message(),
      "rank 2 is lost (its process ended) while rank 0 waits for rank 1, for which it "
      "receives: call 2, expected counter 3, seen 0; restart all ranks, and look at how rank 2 "
      "ended");
}

TEST(Waiting, TheKernelIsAskedOncePerSliceAndOnlyAboutAwaitedRanks) {
  Scene scene;
  scene.gone = [&](int r, bool ask_kernel) -> std::string_view {
    if (ask_kernel) {
      EXPECT_EQ(r, 1);
      ++scene.asked;
    }
    return {};
  };
  EXPECT_EQ(scene.wait_for(milliseconds(220)).code(), StatusCode::kTimeout);
  EXPECT_GE(scene.asked, 1);
  EXPECT_LE(scene.asked, 5);
}

TEST(Waiting, ADeadlineInThePastStillLooksOnce) {
  Scene scene;
  scene.delivered = true;
  EXPECT_TRUE(scene.wait_for(milliseconds(-5)).ok());
  scene.delivered = false;
  EXPECT_EQ(scene.wait_for(milliseconds(-5)).code(), StatusCode::kTimeout);
}

TEST(Waiting, APublishedFailureEndsTheWait) {
  Scene scene;
  EXPECT_TRUE(scene.record.publish(0, FailureText::of({StatusCode::kMismatch, "first"})));
  EXPECT_FALSE(scene.record.publish(2, FailureText::of({StatusCode::kTimeout, "second"})));
  EXPECT_EQ(scene.wait_for(milliseconds(5000)).message(), "first");
  scene.delivered = true;
  EXPECT_TRUE(scene.wait_for(milliseconds(5000)).ok()) << "what is there is there";
}

TEST(Reached, HoldsAcrossTheWrap) {
  EXPECT_TRUE(reached(5, 5));
  EXPECT_TRUE(reached(6, 5));
  EXPECT_FALSE(reached(4, 5));
  EXPECT_TRUE(reached(3, 0xfffffffeu));
  EXPECT_FALSE(reached(0xfffffffeu, 3));
  EXPECT_TRUE(reached(0x80000000u - 1, 0));
}

}  // namespace
}  // namespace tandem::symm
