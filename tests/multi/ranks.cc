// SPDX-License-Identifier: Apache-2.0
//
// Thread ranks and forked process ranks for tests.
#include "tests/multi/ranks.h"

#include <cstdio>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symm/world.h"

namespace tandem::testing_ranks {

TransportSpec transport_here(const TransportSpec& wanted) { return wanted; }

std::vector<int> fork_ranks(int size, const std::function<void(const World&)>& body,
                            std::chrono::milliseconds timeout) {
  auto fd = symm::make_rendezvous(size);
  EXPECT_TRUE(fd.ok()) << fd.status().message();
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    {
      auto impl = symm::join_world(rank, size, *fd, timeout);
      if (!impl.ok()) {
        ADD_FAILURE() << "rank " << rank << ": " << impl.status().message();
      } else {
        body(World(std::move(impl).value()));
      }
    }
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  ::close(*fd);
  std::vector<int> states;
  for (pid_t child : children) {
    int state = 0;
    ::waitpid(child, &state, 0);
    states.push_back(state);
  }
  return states;
}

void run_ranks(RanksAs as, int size, const std::function<void(const World&)>& body,
               std::chrono::milliseconds timeout) {
  if (as == RanksAs::processes) {
    const std::vector<int> states = fork_ranks(size, body, timeout);
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ(states[static_cast<std::size_t>(rank)], 0) << "rank " << rank << " failed";
    }
    return;
  }
  auto worlds = World::threads(size, {.timeout = timeout});
  ASSERT_TRUE(worlds.ok()) << worlds.status().message();
  std::vector<std::thread> threads;
  for (World& world : *worlds) {
    // Each thread owns its handle: when it ends, its peers must see the rank leave.
    threads.emplace_back([&body, own = std::move(world)]() mutable {
      const World mine = std::move(own);
      body(mine);
    });
  }
  worlds->clear();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tandem::testing_ranks
