// SPDX-License-Identifier: Apache-2.0
//
// Numbering of machines.
#include "symm/machines.h"

#include <map>

namespace tandem::symm {

Machines::Machines(const std::vector<int>& leader_of, int rank) {
  std::map<int, int> number;  // of the machine with this leader
  for (std::size_t r = 0; r < leader_of.size(); ++r) {
    const auto [entry, fresh] = number.try_emplace(leader_of[r], static_cast<int>(ranks_.size()));
    if (fresh) ranks_.emplace_back();
    machine_of_.push_back(entry->second);
    ranks_[static_cast<std::size_t>(entry->second)].push_back(static_cast<int>(r));
  }
  own_ = of(rank);
}

int Machines::receiver(int machine, int source) const {
  const std::span<const int> there = ranks(machine);
  return there[static_cast<std::size_t>(source) % there.size()];
}

}  // namespace tandem::symm
