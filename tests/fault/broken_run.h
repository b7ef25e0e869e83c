// SPDX-License-Identifier: Apache-2.0
//
// BrokenRuns: runs a sequence of calls again and again, each time with another of its allocations
// failing, and each time in a forked child: a crash or a hang there is counted and told with where
// the allocation was, and ends nothing else. Start reading at sweep().
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tandem/status.h"
#include "tests/fault/failing_new.h"

namespace tandem::testing_fault {

/// Calls of the library, and how they ended: on one rank or on several. What the sequence itself
/// allocates must be `Spared`, or made before.
using Sequence = std::function<std::vector<Status>()>;

/// Runs `call` and adds how it ended; what it throws is a failure, kInternal.
template <class Call>
void add(std::vector<Status>& outcomes, const Call& call) noexcept {
  const auto note = [&](Status status) {
    const Spared own;
    outcomes.push_back(std::move(status));
  };
  try {
    note(call());
  } catch (const std::exception& thrown) {
    const Spared own;
    note({StatusCode::kInternal, std::string("it threw ") + thrown.what()});
  }
}

/// Every allocation of the sequence fails in its turn, alone and together with all later ones;
/// where there are more of them than TANDEM_TEST_POINTS (24; "all" for each), so many spread
/// evenly, from a start that --gtest_random_seed shifts. Whatever fails, the sequence ends within a
/// minute and without a signal, no status is kInternal or kTimeout, no thread, descriptor or child
/// is left, and after a single failure the same sequence succeeds in the same process.
void sweep(std::string_view name, const Sequence& sequence);

}  // namespace tandem::testing_fault
