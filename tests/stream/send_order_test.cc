// SPDX-License-Identifier: Apache-2.0
//
// To whom ranks send: everybody once, once per machine across machines, and at every step no two
// machines to the same one.
#include "stream/send_order.h"

#include <set>

#include <gtest/gtest.h>

namespace tandem::stream {
namespace {

/// Machines of `per_machine` ranks each, the last one perhaps smaller.
std::vector<int> leaders(int ranks, int per_machine) {
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) all.push_back(r / per_machine * per_machine);
  return all;
}

TEST(SendOrder, EveryPeerIsReachedOnce) {
  for (SendOrder order : {SendOrder::together, SendOrder::by_peer, SendOrder::by_machine}) {
    for (int ranks : {1, 2, 5, 8}) {
      for (int per_machine : {1, 2, 3, 8}) {
        for (bool itself : {false, true}) {
          for (int rank = 0; rank < ranks; ++rank) {
            const symm::Machines machines(leaders(ranks, per_machine), rank);
            std::multiset<int> reached;
            for (const SendStep& step : plan_sends(order, machines, rank, ranks, itself)) {
              for (const Destination& to : step) {
                reached.insert(to.peer);
                reached.insert(to.also.begin(), to.also.end());
                for (int peer : to.also) EXPECT_EQ(machines.of(peer), machines.of(to.peer));
              }
            }
            EXPECT_EQ(reached.size(), static_cast<std::size_t>(ranks - 1 + (itself ? 1 : 0)));
            EXPECT_EQ(std::set<int>(reached.begin(), reached.end()).size(), reached.size());
            EXPECT_EQ(reached.count(rank), itself ? 1u : 0u);
          }
        }
      }
    }
  }
}

TEST(SendOrder, ByMachineCrossesOncePerMachineAndNoTwoMeet) {
  constexpr int kRanks = 8, kPerMachine = 2, kMachines = 4;
  std::vector<std::set<int>> targets(kMachines - 1);  // by step, of the first rank of each machine
  for (int rank = 0; rank < kRanks; ++rank) {
    const symm::Machines machines(leaders(kRanks, kPerMachine), rank);
    const auto steps = plan_sends(SendOrder::by_machine, machines, rank, kRanks, false);
    ASSERT_EQ(steps.size(), static_cast<std::size_t>(kMachines - 1));
    for (std::size_t s = 0; s < steps.size(); ++s) {
      int remote = 0;
      for (const Destination& to : steps[s]) {
        if (machines.local(to.peer)) {
          EXPECT_EQ(s, 0u);  // one's own machine in the first step
          EXPECT_TRUE(to.also.empty());
          continue;
        }
        ++remote;
        EXPECT_EQ(to.also.size(), static_cast<std::size_t>(kPerMachine - 1));
        if (rank % kPerMachine == 0) {
          EXPECT_TRUE(targets[s].insert(machines.of(to.peer)).second);
        }
      }
      EXPECT_EQ(remote, 1);
    }
  }
}

TEST(Machines, AreNumberedByTheirLowestRanksAndSpreadTheReceiving) {
  // Ranks placed in turn: 0 and 2 and 4 here, 1 and 3 there.
  const symm::Machines machines({0, 1, 0, 1, 0}, 3);
  EXPECT_EQ(machines.count(), 2);
  EXPECT_EQ(machines.own(), 1);
  EXPECT_EQ(machines.leader(), 1);
  EXPECT_TRUE(machines.local(1));
  EXPECT_FALSE(machines.local(4));
  EXPECT_EQ(machines.receiver(1, 0), 1);
  EXPECT_EQ(machines.receiver(1, 2), 1);
  EXPECT_EQ(machines.receiver(1, 3), 3);
  EXPECT_EQ(machines.receiver(0, 1), 2);
  EXPECT_EQ(machines.receiver(0, 3), 0);
  EXPECT_EQ(symm::Machines(4).count(), 1);
}

}  // namespace
}  // namespace tandem::stream
