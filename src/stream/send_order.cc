// SPDX-License-Identifier: Apache-2.0
//
// The three orders.
#include "stream/send_order.h"

namespace tandem::stream {

std::vector<SendStep> plan_sends(SendOrder order, const symm::Machines& machines, int rank,
                                 int ranks, bool itself) {
  std::vector<SendStep> steps;
  if (order == SendOrder::by_machine) {
    for (int step = 1; step < machines.count(); ++step) {
      const auto there =
          machines.ranks((machines.own() - step + machines.count()) % machines.count());
      steps.push_back({{there.front(), {there.begin() + 1, there.end()}}});
    }
  }
  // The link takes longest: a chunk is on its way there before it is announced here.
  const bool join = order != SendOrder::by_peer;
  if (join && steps.empty()) steps.emplace_back();
  for (int step = itself ? 0 : 1; step < ranks; ++step) {
    const int peer = (rank - step + ranks) % ranks;
    if (order == SendOrder::by_machine && !machines.local(peer)) continue;
    if (!join) steps.emplace_back();
    (join ? steps.front() : steps.back()).push_back({peer, {}});
  }
  return steps;
}

}  // namespace tandem::stream
