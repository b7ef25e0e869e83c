// SPDX-License-Identifier: Apache-2.0
//
// The link that the sim transport models: what shares it, what may overlap, in which order parcels
// arrive. Times are only bounded from below, but for one bound that is five times the model's.
#include "transport/sim_lane.h"

#include <ctime>

#include <gmock/gmock.h>

#include "tests/symm/ranks.h"

namespace tandem::transport {
namespace {

using platform::Clock;
using std::chrono::milliseconds;
using testing::far;

struct Ends {
  explicit Ends(int size, int counters = 8) {
    auto made = symm::make_thread_worlds(size, milliseconds(20000));
    EXPECT_TRUE(made.ok());
    worlds = *made;
    windows.resize(worlds.size());
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < worlds.size(); ++r) {
      threads.emplace_back([this, r, counters] {
        auto window = worlds[r]->create_window({.bytes = 1 << 16, .counters = counters});
        if (window.ok()) windows[r] = std::move(window).value();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  symm::Window& operator[](std::size_t r) { return *windows[r]; }

  std::vector<std::shared_ptr<symm::World>> worlds;
  std::vector<std::unique_ptr<symm::Window>> windows;
};

constexpr double kMBps = 1e6;  // 1000 bytes = 1 ms

Parcel parcel(int peer, int counter, std::size_t bytes) {
  return {.peer = peer, .counter = counter, .row_bytes = bytes, .rows = 1};
}

Link slow(milliseconds latency) { return {.bytes_per_second = kMBps, .latency = latency}; }

TEST(SimLane, TransfersOfOneEgressAddUp) {
  Ends ends(3);
  SimLane lane(slow(milliseconds(5)), ends[0], 0);
  const auto start = Clock::now();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(lane.send(parcel(1 + i % 2, 0, 3000)).ok());
  ASSERT_TRUE(lane.flush().ok());
  EXPECT_GE(Clock::now() - start, milliseconds(10 * 3 + 5));
  EXPECT_EQ(ends[1].read(0), 5u);
  EXPECT_EQ(ends[2].read(0), 5u);
}

/// Sends 20 ms parcels in turn on two lanes. Each has the link to itself for 100 ms, so that even
/// a busy machine tells shared from separate.
Clock::duration time_in_turn(SimLane& one, int peer_of_one, SimLane& two, int peer_of_two) {
  const auto start = Clock::now();
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(one.send(parcel(peer_of_one, 0, 20000)).ok());
    EXPECT_TRUE(two.send(parcel(peer_of_two, 1, 20000)).ok());
  }
  EXPECT_TRUE(one.flush().ok());
  EXPECT_TRUE(two.flush().ok());
  return Clock::now() - start;
}

TEST(SimLane, TransfersToOneIngressAddUp) {
  Ends ends(3);
  SimLane one(slow(milliseconds(0)), ends[1], 0), two(slow(milliseconds(0)), ends[2], 0);
  EXPECT_GE(time_in_turn(one, 0, two, 0), milliseconds(200));
}

TEST(SimLane, LanesOfOneRankShareItsEgress) {
  Ends ends(3);
  SimLane one(slow(milliseconds(0)), ends[0], 0), two(slow(milliseconds(0)), ends[0], 1);
  EXPECT_GE(time_in_turn(one, 1, two, 2), milliseconds(200));
}

TEST(SimLane, ConcurrentBookingsKeepTheLinkExclusive) {
  Ends ends(2);
  const auto start = Clock::now();
  std::vector<std::thread> senders;
  for (int index = 0; index < 4; ++index) {
    senders.emplace_back([&, index] {
      SimLane lane(slow(milliseconds(0)), ends[0], index);
      for (int i = 0; i < 50; ++i) EXPECT_TRUE(lane.send(parcel(1, index, 250)).ok());
      EXPECT_TRUE(lane.flush().ok());
    });
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_GE(Clock::now() - start, milliseconds(50));
}

TEST(SimLane, ParcelsOfALaneReachAPeerInOrder) {
  Ends ends(2);
  const Link link{
      .bytes_per_second = 1e12, .latency = milliseconds(0), .jitter = milliseconds(5), .seed = 11};
  std::jthread sender([&] {
    SimLane lane(link, ends[0], 0);
    for (int i = 0; i < 30; ++i) {
      EXPECT_TRUE(lane.send(parcel(1, 0, 8)).ok());
      EXPECT_TRUE(lane.send(parcel(1, 1, 8)).ok());
    }
    EXPECT_TRUE(lane.flush().ok());
  });
  for (std::uint32_t first = 0, second = 0; second < 30;) {
    ASSERT_TRUE(ends[1].wait_until(1, second + 1, {.rank = 0, .call = 1}, far()).ok());
    second = ends[1].read(1);  // in this order: the other may only have grown since
    first = ends[1].read(0);
    ASSERT_GE(first, second) << "a parcel overtook the one before it";
  }
}

TEST(SimLane, LatencyIsPaidOnceForParcelsUnderWay) {
  Ends ends(2);
  SimLane lane(slow(milliseconds(100)), ends[0], 0);
  const auto start = Clock::now();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(lane.send(parcel(1, 0, 1000)).ok());
  EXPECT_EQ(ends[1].read(0), 0u) << "nothing can have arrived within the latency";
  ASSERT_TRUE(lane.flush().ok());
  const auto took = Clock::now() - start;
  EXPECT_GE(took, milliseconds(110));
  EXPECT_LT(took, milliseconds(600)) << "ten latencies one after the other would be a second";
}

TEST(SimLane, WaitingTakesNoCpu) {
  Ends ends(2);
  SimLane lane(slow(milliseconds(20)), ends[0], 0);
  std::timespec before{}, after{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(lane.send(parcel(1, 0, 10000)).ok());
  ASSERT_TRUE(lane.flush().ok());
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  const double cpu_ms = static_cast<double>(after.tv_sec - before.tv_sec) * 1e3 +
                        static_cast<double>(after.tv_nsec - before.tv_nsec) / 1e6;
  EXPECT_LT(cpu_ms, 50) << "of 220 ms on the link";
}

TEST(SimLane, JitterReordersLanesButNotAPeersParcels) {
  Ends ends(2);
  Link link{
      .bytes_per_second = 1e12, .latency = milliseconds(0), .jitter = milliseconds(20), .seed = 3};
  // Two lanes send in turn from one thread; a receiver notes which counter grows first.
  SimLane lanes[] = {{link, ends[0], 0}, {link, ends[0], 1}};
  std::vector<int> order;
  std::thread receiver([&] {
    std::uint32_t seen[2] = {0, 0};
    while (seen[0] + seen[1] < 40) {
      const auto ready = [&] { return ends[1].read(0) != seen[0] || ends[1].read(1) != seen[1]; };
      const auto nobody = [](int) { return std::optional<WaitDetail>(); };
      if (!ends[1].wait(ready, nobody, far()).ok()) return;
      for (int c : {0, 1}) {
        for (; seen[c] != ends[1].read(c); ++seen[c]) order.push_back(c);
      }
    }
  });
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(lanes[1].send(parcel(1, 1, 8)).ok());
      EXPECT_TRUE(lanes[1].flush().ok());
    }
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(lanes[0].send(parcel(1, 0, 8)).ok());
    EXPECT_TRUE(lanes[0].flush().ok());
  }
  other.join();
  receiver.join();
  ASSERT_EQ(order.size(), 40u);
  bool in_turn = true;
  for (std::size_t i = 2; i < order.size(); ++i) in_turn = in_turn && order[i] == order[i - 2];
  EXPECT_FALSE(in_turn) << "lanes alternated strictly: the jitter does nothing";
}

TEST(SimLane, AFailedWindowEndsTheWait) {
  Ends ends(2);
  SimLane lane(slow(milliseconds(60000)), ends[0], 0);
  ASSERT_TRUE(lane.send(parcel(1, 0, 10)).ok());
  const auto start = Clock::now();
  const Status failed = ends[1].fail({StatusCode::kInternal, "broken"});
  const Status status = lane.flush();
  EXPECT_EQ(status.message(), "broken");
  EXPECT_LT(Clock::now() - start, milliseconds(30000));
}

}  // namespace
}  // namespace tandem::transport
