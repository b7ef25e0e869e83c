// SPDX-License-Identifier: Apache-2.0
//
// run_ranks(): runs one test body on every rank of a fresh world, the ranks being threads of this
// process or forked processes. Expectations in the body count either way: a process rank that saw
// one fail exits with 1, which run_ranks() reports.
#pragma once

#include <chrono>
#include <functional>
#include <ostream>
#include <vector>

#include "tandem/transport.h"
#include "tandem/world.h"

namespace tandem::testing_ranks {

enum class RanksAs { threads, processes };

inline std::ostream& operator<<(std::ostream& out, RanksAs as) {
  return out << (as == RanksAs::threads ? "threads" : "processes");
}

/// The transport to use where a test would like this one: the MPI runner has only its own.
[[nodiscard]] TransportSpec transport_here(const TransportSpec& wanted);

/// Fork must not meet other threads: with `processes`, call this from the main thread only.
void run_ranks(RanksAs as, int size, const std::function<void(const World&)>& body,
               std::chrono::milliseconds timeout = std::chrono::seconds(60));

/// What waitpid said of each rank. Used where ranks are meant to die.
std::vector<int> fork_ranks(int size, const std::function<void(const World&)>& body,
                            std::chrono::milliseconds timeout);

}  // namespace tandem::testing_ranks
