// SPDX-License-Identifier: Apache-2.0
//
// run_ranks(): runs one body on every rank of a world, with thread ranks or process ranks, so that
// a test is written once for both. Process ranks are this test program started again by
// tandem::launch() with a filter for the running test: there the same call finds the rank in its
// environment and runs the body. Used by tests/symm, tests/transport and tests/fault.
#pragma once

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "symm/world.h"
#include "tandem/launch.h"
#include "tandem/world.h"

namespace tandem::testing {

enum class Ranks { threads, processes };

inline std::string text(Ranks ranks) { return ranks == Ranks::threads ? "threads" : "processes"; }

inline bool is_rank_process() { return std::getenv("TANDEM_RANK") != nullptr; }

/// The full name of the running test, as --gtest_filter takes it.
inline std::string current_test() {
  const ::testing::TestInfo* info = ::testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format("{}.{}", info->test_suite_name(), info->name());
}

/// Starts this program as `size` ranks that run only the current test.
inline LaunchReport launch_current_test(int size, std::vector<std::string> environment = {}) {
  auto report =
      launch({.size = size,
              .command = {"/proc/self/exe", "--gtest_filter=" + current_test(), "--gtest_brief=1"},
              .environment = std::move(environment)});
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? *report : LaunchReport{};
}

using Body = std::function<void(const World& world)>;

inline void run_ranks(Ranks ranks, int size, const Body& body, WorldOptions options = {}) {
  if (ranks == Ranks::processes) {
    if (!is_rank_process()) {
      const LaunchReport report = launch_current_test(size);
      EXPECT_EQ(report.exit_code, 0) << report.summary;
      return;
    }
    auto world = World::from_environment(options);
    ASSERT_TRUE(world.ok()) << world.status().message();
    body(*world);
    return;
  }
  auto worlds = World::threads(size, options);
  ASSERT_TRUE(worlds.ok()) << worlds.status().message();
  std::vector<std::thread> threads;
  for (World& world : *worlds) {
    // Moved into the thread: the rank leaves its world when its body returns, as a process would.
    threads.emplace_back([&body, mine = std::optional<World>(std::move(world))]() mutable {
      body(*mine);
      mine.reset();
    });
  }
  worlds->clear();
  for (std::thread& thread : threads) thread.join();
}

inline platform::Deadline in(std::chrono::milliseconds time) {
  return platform::Deadline::after(time);
}

/// Far enough away that only a bug reaches it.
inline platform::Deadline far() { return in(std::chrono::seconds(60)); }

}  // namespace tandem::testing
