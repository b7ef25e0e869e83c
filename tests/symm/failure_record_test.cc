// SPDX-License-Identifier: Apache-2.0
//
// The record of the first failure: one stands, whole, whoever else speaks, is killed while it
// speaks, or has scribbled over it.
#include "symm/failure_record.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/delay.h"
#include "platform/memory.h"
#include "platform/shared_memory.h"

namespace tandem::symm {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 4;

struct Board {
  FailureChoice choice;
  FailureSlot slots[kRanks];
  FailureRecord record{choice, slots[0], sizeof(FailureSlot), kRanks};
};

FailureText named(const std::string& message) {
  return FailureText::of({StatusCode::kTimeout, message});
}

TEST(FailureRecord, TheFirstStandsWithAllThatCameWithIt) {
  Board b;
  EXPECT_TRUE(b.record.read().ok());
  EXPECT_FALSE(b.record.published() || b.record.refused());
  const Status given(StatusCode::kPeerLost, std::string(2000, 'x'), WaitDetail{.rank = 3});
  EXPECT_TRUE(b.record.publish(2, FailureText::of(given, /*refused=*/true)));
  EXPECT_FALSE(b.record.publish(2, named("second")));
  EXPECT_FALSE(b.record.publish(0, named("third")));
  EXPECT_TRUE(b.record.published() && b.record.refused());
  const Status read = b.record.read();
  EXPECT_EQ(read.code(), StatusCode::kPeerLost);
  EXPECT_EQ(read.message(), std::string(1024, 'x'));
  ASSERT_TRUE(read.wait().has_value());
  EXPECT_EQ(read.wait()->rank, 3);
  b.record.clear();
  EXPECT_TRUE(b.record.read().ok());
  EXPECT_TRUE(b.record.publish(2, named("fourth")));
  EXPECT_FALSE(b.record.refused());
  EXPECT_EQ(b.record.read().message(), "fourth");
}

TEST(FailureRecord, ThreadsOfOneAndOfSeveralRanksAgree) {
  platform::set_delays(11, 300);
  for (int round = 0; round < 50; ++round) {
    Board b;
    std::atomic<int> first{0};
    std::vector<std::string> standing(8);
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&b, &first, &standing, t] {
        const std::string mine = std::to_string(t) + std::string(500, static_cast<char>('a' + t));
        first += b.record.publish(t % kRanks, named(mine)) ? 1 : 0;
        standing[static_cast<std::size_t>(t)] = b.record.read().message();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(first, 1);
    for (const std::string& seen : standing) ASSERT_EQ(seen, b.record.read().message());
    const std::string stands = b.record.read().message();
    ASSERT_EQ(stands, stands[0] + std::string(500, static_cast<char>('a' + (stands[0] - '0'))));
  }
  platform::set_delays(11, 0);
}

/// The choice and the slots on pages of their own, shared with forked children.
struct SharedBoard {
  SharedBoard() {
    EXPECT_TRUE(file.reserve(0, bytes).ok());
    memory = file.map(0, bytes).value();
    choice = new (memory.data()) FailureChoice;
    slots = new (memory.data() + page) FailureSlot[kRanks];
  }
  [[nodiscard]] FailureRecord record() const {
    return {*choice, slots[0], sizeof(FailureSlot), kRanks};
  }
  const std::size_t page = platform::page_size();
  const std::size_t bytes = page + (sizeof(FailureSlot) * kRanks + page - 1) / page * page;
  platform::SharedFile file = platform::SharedFile::create().value();
  platform::SharedMapping memory;
  FailureChoice* choice = nullptr;
  FailureSlot* slots = nullptr;
};

TEST(FailureRecord, WhoIsKilledWhileItSpeaksHarmsNobody) {
  // Killed by its first write to the slots, and by its first write to the choice: at these two
  // instants what others can see changes.
  for (bool at_choice : {false, true}) {
    SharedBoard b;
    const pid_t child = fork();
    if (child == 0) {
      signal(SIGSEGV, SIG_DFL);
      std::byte* forbidden = b.memory.data() + (at_choice ? 0 : b.page);
      mprotect(forbidden, at_choice ? b.page : b.bytes - b.page, PROT_READ);
      auto record = b.record();
      (void)record.publish(1, named("the last word of rank 1"));
      _exit(0);
    }
    int end = 0;
    ASSERT_EQ(waitpid(child, &end, 0), child);
    ASSERT_TRUE(WIFSIGNALED(end)) << "it was to die while it wrote";
    auto record = b.record();
    EXPECT_TRUE(record.read().ok());
    EXPECT_TRUE(record.publish(3, named("rank 1 is lost")));
    EXPECT_FALSE(record.publish(0, named("too late")));
    EXPECT_EQ(record.read().message(), "rank 1 is lost");
  }
}

TEST(FailureRecord, WhatWasScribbledOverIsStillAFailure) {
  for (std::uint32_t chosen : {5u, 0x80000000u, ~0u}) {
    Board b;
    b.choice.chosen = chosen;
    EXPECT_EQ(b.record.read().code(), StatusCode::kInternal);
    EXPECT_THAT(b.record.read().message(), HasSubstr("damaged"));
  }
  Board b;
  (void)b.record.publish(0, named("words"));
  b.slots[0].text.length = ~0u;
  for (std::uint32_t code : {0u, 99u, ~0u}) {
    b.slots[0].text.code = code;
    EXPECT_EQ(b.record.read().code(), StatusCode::kInternal);
  }
}

}  // namespace
}  // namespace tandem::symm
