// SPDX-License-Identifier: Apache-2.0
//
// What put, notify and wait promise, for thread ranks and process ranks alike. Delays at protocol
// steps make the orders sharp: a notify that overtook its write, a slot written without credit or
// a lost wake-up shows up here as a wrong value or a timeout.
#include "symm/window.h"

#include <atomic>
#include <cstring>

#include <gmock/gmock.h>

#include "platform/delay.h"
#include "tests/symm/ranks.h"

namespace tandem::symm {
namespace {

using testing::far;
using testing::in;
using testing::Ranks;
using testing::run_ranks;

struct Case {
  Ranks ranks;
  int size;
};

class WindowTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { platform::set_delays(7, 0); }
  void TearDown() override { platform::set_delays(7, 0); }

  void run(const std::function<void(symm::World&)>& body) {
    run_ranks(GetParam().ranks, GetParam().size, [&](const tandem::World& w) { body(*w.impl()); });
  }
};

std::unique_ptr<Window> make(World& world, std::size_t bytes, int counters) {
  auto window = world.create_window({.bytes = bytes, .counters = counters});
  EXPECT_TRUE(window.ok()) << window.status().message();
  return window.ok() ? std::move(window).value() : nullptr;
}

void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

TEST_P(WindowTest, PartsAreAlignedZeroedAndApart) {
  run([](World& world) {
    auto window = make(world, 5000, 3);
    ASSERT_NE(window, nullptr);
    EXPECT_EQ(window->bytes(), 5000u);
    for (int r = 0; r < world.size(); ++r) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(window->data(r)) % 4096, 0u);
    }
    for (int c = 0; c < 3; ++c) EXPECT_EQ(window->read(c), 0u);
    for (std::size_t i = 0; i < 5000; ++i) ASSERT_EQ(window->data(world.rank())[i], std::byte{0});
    expect_ok(world.barrier());
    std::memset(window->data(world.rank()), 1 + world.rank(), 5000);
    expect_ok(world.barrier());
    for (int r = 0; r < world.size(); ++r) {
      EXPECT_EQ(window->data(r)[0], static_cast<std::byte>(1 + r));
      EXPECT_EQ(window->data(r)[4999], static_cast<std::byte>(1 + r));
    }
    expect_ok(world.barrier());
  });
}

/// Every rank streams numbered messages to its right neighbour through two slots: a message may be
/// written only when the reader has credited the one before last.
void stream_round_the_ring(World& world, int messages) {
  constexpr std::size_t kSlot = 4096;
  constexpr int kArrived = 0, kCredit = 1;
  auto window = make(world, 2 * kSlot, 2);
  ASSERT_NE(window, nullptr);
  const int right = (world.rank() + 1) % world.size();
  const int left = (world.rank() + world.size() - 1) % world.size();
  std::vector<std::byte> message(kSlot);
  for (int n = 0; n < messages; ++n) {
    const auto target = static_cast<std::uint32_t>(n);
    expect_ok(window->wait_until(kCredit, target - 1, {.rank = right, .call = 1}, far()));
    std::memset(message.data(), n % 251, kSlot);
    window->put(right, static_cast<std::size_t>(n % 2) * kSlot, message.data(), kSlot);
    platform::protocol_step("put-notify");
    window->notify(right, kArrived);

    expect_ok(window->wait_until(kArrived, target + 1, {.rank = left, .call = 1}, far()));
    const std::byte* got = window->data(world.rank()) + static_cast<std::size_t>(n % 2) * kSlot;
    platform::protocol_step("read");
    for (std::size_t i = 0; i < kSlot; ++i) {
      ASSERT_EQ(got[i], static_cast<std::byte>(n % 251)) << "message " << n << " byte " << i;
    }
    window->notify(left, kCredit);
  }
}

TEST_P(WindowTest, NotifyComesAfterItsPutAndCreditsKeepSlots) {
  run([](World& world) { stream_round_the_ring(world, 2000); });
}

TEST_P(WindowTest, NotifyComesAfterItsPutUnderDelays) {
  run([](World& world) {
    platform::set_delays(11, 500);
    stream_round_the_ring(world, 100);
  });
}

TEST_P(WindowTest, CountersWrapAround) {
  run([](World& world) {
    auto window = make(world, 0, 1);
    ASSERT_NE(window, nullptr);
    const int right = (world.rank() + 1) % world.size();
    const int left = (world.rank() + world.size() - 1) % world.size();
    constexpr std::uint32_t kStart = 0xfffffff0u;
    window->notify(right, 0, kStart);
    expect_ok(world.barrier());  // from 0, the start would count as reached: it is behind the wrap
    for (std::uint32_t i = 0; i < 32; ++i) {
      const std::uint32_t before = kStart + i;  // wraps at i = 16
      expect_ok(window->wait_until(0, before, {.rank = left, .call = 1}, far()));
      EXPECT_TRUE(window->test(0, before - 1));
      window->notify(right, 0);
    }
    expect_ok(window->wait_until(0, kStart + 32, {.rank = left}, far()));
    EXPECT_EQ(window->read(0), 16u);
    EXPECT_FALSE(window->test(0, 17));
    expect_ok(world.barrier());
  });
}

TEST_P(WindowTest, SleepersAreWokenAtOnce) {
  run([](World& world) {
    auto window = make(world, 0, 1);
    ASSERT_NE(window, nullptr);
    const int size = world.size();
    // A token goes round; while it does, all other ranks are asleep. A lost wake-up would cost a
    // slice of 50 ms each.
    constexpr std::uint32_t kRounds = 50;
    const int right = (world.rank() + 1) % size;
    const int left = (world.rank() + size - 1) % size;
    const auto start = platform::Clock::now();
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      if (world.rank() != 0 || round > 0) {
        const std::uint32_t target = world.rank() == 0 ? round : round + 1;
        expect_ok(window->wait_until(0, target, {.rank = left, .call = round}, far()));
      }
      platform::sleep_until(in(std::chrono::milliseconds(1)).moment());
      window->notify(right, 0);
    }
    expect_ok(world.barrier());
    const auto took = platform::Clock::now() - start;
    // A hundredth of what lost wake-ups would take would do; a quarter is kind to slow machines.
    EXPECT_LT(took, std::chrono::milliseconds(50) * kRounds * size / 4 + std::chrono::seconds(2));
  });
}

TEST_P(WindowTest, TimeoutNamesRankAndCounters) {
  run([](World& world) {
    auto window = make(world, 0, 2);
    ASSERT_NE(window, nullptr);
    const int last = world.size() - 1;
    if (world.rank() == 0) {
      const auto start = platform::Clock::now();
      const Status status = window->wait_until(1, 5, {.rank = last, .call = 7, .chunk = 3},
                                               in(std::chrono::milliseconds(120)));
      EXPECT_GE(platform::Clock::now() - start, std::chrono::milliseconds(120));
      EXPECT_EQ(status.code(), StatusCode::kTimeout);
      ASSERT_TRUE(status.wait().has_value());
      EXPECT_EQ(status.wait()->rank, last);
      EXPECT_EQ(status.wait()->call, 7u);
      EXPECT_EQ(status.wait()->chunk, 3);
      EXPECT_EQ(status.wait()->expected, 5u);
      EXPECT_EQ(status.wait()->seen, 2u);
      EXPECT_THAT(status.message(), ::testing::HasSubstr(fmt::format("rank {}", last)));
      EXPECT_THAT(status.message(), ::testing::HasSubstr("expected counter 5, seen 2"));
    } else {
      if (world.rank() == last) window->notify(0, 1, 2);
      // Rank 0's failure is published: whatever a rank waits for, it gets the same error.
      const Status status = window->wait_until(0, 1, {.rank = 0, .call = 1}, far());
      EXPECT_EQ(status.code(), StatusCode::kTimeout);
      ASSERT_TRUE(status.wait().has_value());
      EXPECT_EQ(status.wait()->call, 7u);
    }
    EXPECT_EQ(window->failure().code(), StatusCode::kTimeout);
    expect_ok(world.barrier());
  });
}

TEST_P(WindowTest, FirstFailureWins) {
  run([](World& world) {
    auto window = make(world, 0, 1);
    ASSERT_NE(window, nullptr);
    EXPECT_TRUE(window->failure().ok());
    expect_ok(world.barrier());
    const std::string text = fmt::format("rank {} {}", world.rank(), std::string(700, 'x'));
    const Status stands = window->fail({StatusCode::kMismatch, text});
    expect_ok(world.barrier());
    EXPECT_EQ(window->failure().message(), stands.message());
    EXPECT_GT(stands.message().size(), 700u);
    // All ranks hold the same one: compare its author with everybody's.
    const std::int64_t author = stands.message()[5] - '0';
    auto all = world.exchange(Collective::all_gather, Terms{author});
    ASSERT_TRUE(all.ok());
    for (const Terms& terms : *all) EXPECT_EQ(terms[0], author);
    // A wait on a failed window returns the failure, with no wait of its own.
    EXPECT_EQ(window->wait_until(0, 1, {.rank = 0}, far()).code(), StatusCode::kMismatch);
  });
}

TEST_P(WindowTest, WakeMakesWaitersLookAgain) {
  run([](World& world) {
    auto window = make(world, 0, 1);
    ASSERT_NE(window, nullptr);
    std::atomic<bool> flag{false};
    std::thread other([&] {
      platform::sleep_until(in(std::chrono::milliseconds(20)).moment());
      flag.store(true, std::memory_order_release);
      window->wake();
    });
    const auto ready = [&] { return flag.load(std::memory_order_acquire); };
    const auto nobody = [](int) { return std::optional<WaitDetail>(); };
    expect_ok(window->wait(ready, nobody, far()));
    other.join();
    expect_ok(world.barrier());
  });
}

TEST_P(WindowTest, DestroyedEndIsNoticed) {
  run([](World& world) {
    auto window = make(world, 0, 1);
    ASSERT_NE(window, nullptr);
    if (world.rank() == 0) {
      window.reset();
      expect_ok(world.barrier());
      return;
    }
    const Status status = window->wait_until(0, 1, {.rank = 0, .call = 1}, far());
    EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.message();
    EXPECT_THAT(status.message(), ::testing::HasSubstr("destroyed its end"));
    expect_ok(world.barrier());
  });
}

TEST_P(WindowTest, WhoLeavesAFailedWorldIsNotTakenForTheCulprit) {
  run([](World& world) {
    auto window = make(world, 8, 1);
    ASSERT_NE(window, nullptr);
    if (world.rank() == 0) {
      const auto soon = in(std::chrono::milliseconds(50));
      const auto alone = world.exchange_until(Collective::barrier, Terms{}, soon);
      EXPECT_EQ(alone.status().code(), StatusCode::kTimeout);
      window.reset();
      return;
    }
    const Status status = window->wait_until(0, 1, {.rank = 0, .call = 1}, far());
    EXPECT_EQ(status.code(), StatusCode::kTimeout) << status.message();
    EXPECT_THAT(status.message(), ::testing::HasSubstr("rank 0 waited"));
  });
}

TEST_P(WindowTest, WhatALeavingRankSentStillCounts) {
  run([](World& world) {
    auto window = make(world, 8, 1);
    ASSERT_NE(window, nullptr);
    if (world.rank() == 0) {
      for (int r = 1; r < world.size(); ++r) {
        const std::byte value{42};
        window->put(r, 0, &value, 1);
        window->notify(r, 0);
      }
      window.reset();
      return;
    }
    platform::sleep_until(in(std::chrono::milliseconds(60)).moment());
    expect_ok(window->wait_until(0, 1, {.rank = 0, .call = 1}, far()));
    EXPECT_EQ(window->data(world.rank())[0], std::byte{42});
  });
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return fmt::format("{}{}", testing::text(info.param.ranks), info.param.size);
}

INSTANTIATE_TEST_SUITE_P(Ranks, WindowTest,
                         ::testing::Values(Case{Ranks::threads, 2}, Case{Ranks::threads, 5},
                                           Case{Ranks::processes, 2}, Case{Ranks::processes, 3}),
                         case_name);

}  // namespace
}  // namespace tandem::symm
