// SPDX-License-Identifier: Apache-2.0
//
// Machines: which rank runs where. Ranks of one machine share memory; what a rank tells another
// machine goes to one of that machine's ranks, its receiver, which acts there for all of them. The
// receiving is spread: source s is received by the machine's rank number s mod (ranks there).
// Pure arithmetic; World, Window and the room that speaks to other machines ask here.
#pragma once

#include <span>
#include <vector>

#include "base/internal_api.h"

namespace tandem::symm {

class TANDEM_INTERNAL_API Machines {
 public:
  /// All ranks on one machine.
  explicit Machines(int ranks)
      : Machines(std::vector<int>(static_cast<std::size_t>(ranks), 0), 0) {}
  /// `leader_of` names for each rank the lowest rank of its machine. `rank` is one's own.
  Machines(const std::vector<int>& leader_of, int rank);

  [[nodiscard]] int count() const { return static_cast<int>(ranks_.size()); }
  /// Machines are numbered in the order of their lowest ranks.
  [[nodiscard]] int of(int rank) const { return machine_of_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int own() const { return own_; }
  [[nodiscard]] bool local(int rank) const { return of(rank) == own_; }
  /// The ranks of a machine, ascending.
  [[nodiscard]] std::span<const int> ranks(int machine) const {
    return ranks_[static_cast<std::size_t>(machine)];
  }
  [[nodiscard]] std::span<const int> local_ranks() const { return ranks(own_); }
  /// The lowest rank of one's own machine.
  [[nodiscard]] int leader() const { return local_ranks().front(); }
  /// Who receives on `machine` what `source` sends there.
  [[nodiscard]] int receiver(int machine, int source) const;

 private:
  std::vector<int> machine_of_;
  std::vector<std::vector<int>> ranks_;
  int own_ = 0;
};

}  // namespace tandem::symm
