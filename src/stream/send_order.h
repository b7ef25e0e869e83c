// SPDX-License-Identifier: Apache-2.0
//
// SendOrder: to whom a rank sends, and in which order, so that receivers get first what they
// consume first and no link serves two at once (a Latin square). Steps follow each other; within a
// step every chunk goes to all destinations before the next chunk does. Pure functions; the
// communication engine walks the result.
#pragma once

#include <span>
#include <vector>

#include "symm/machines.h"

namespace tandem::stream {

/// One delivery: to `peer`, which also does for these other ranks of its machine.
struct Destination {
  int peer = 0;
  std::vector<int> also;
};
using SendStep = std::vector<Destination>;

enum class SendOrder {
  together,    ///< one step: where no link is shared, a chunk is there for all at once
  by_peer,     ///< at step s to rank r − s
  by_machine,  ///< at step s to machine m − s, once for all its ranks; to one's own in the first
};

/// `itself`: the rank is among its own destinations.
[[nodiscard]] std::vector<SendStep> plan_sends(SendOrder order, const symm::Machines& machines,
                                               int rank, int ranks, bool itself);

}  // namespace tandem::stream
