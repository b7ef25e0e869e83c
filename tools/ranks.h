// SPDX-License-Identifier: Apache-2.0
//
// Runs one body on every rank of a job: on threads of this process, on processes that this one
// starts (copies of this command with the same arguments), or, in a process that is a rank
// already, as that rank. run.cc and bench.cc call it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "job.h"
#include "outcome.h"
#include "tandem/world.h"

namespace tandem::tool {

/// One rank's work. The output of rank 0 is the command's.
using RankBody = std::function<Outcome(const World&)>;

/// `arguments` are those of this process, without its name. `bytes` is the memory that all ranks
/// hold together; it is checked once, before any rank starts.
[[nodiscard]] Outcome run_ranks(const Job& job, const std::vector<std::string>& arguments,
                                double bytes, const RankBody& body);

/// Collective. `own`, or, when that is ok and another rank's is not, an outcome without a message:
/// the rank that failed speaks. Empty when all are ok.
[[nodiscard]] std::optional<Outcome> agree(const World& world, const Status& own);

}  // namespace tandem::tool
