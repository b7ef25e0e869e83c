// SPDX-License-Identifier: Apache-2.0
//
// A rank that kill_sweep.py has killed, or that survives and says what it was told. The same with
// ranks of a launcher (fault_rank_process.cc) and of mpirun (fault_rank_mpi.cc).
#pragma once

#include <functional>
#include <string_view>

#include "tandem/world.h"

namespace tandem::testing_fault {

class FaultRank {
 public:
  /// `arguments` are WAY SCALE CALLS ENDS VICTIM PHASE NANOSECONDS: rank ENDS (-1: every rank)
  /// makes so many calls, the others call until they fail; rank VICTIM dies by SIGKILL so long
  /// after it has entered the phase, if it still lives then.
  FaultRank(int rank, char** arguments);
  static constexpr int kArguments = 7;

  /// The next phase begins: a line "RANK PID PHASE TIME" on standard output, in nanoseconds of
  /// CLOCK_MONOTONIC. Before a death "RANK PID death TIME", with the time at which it comes.
  void enter(std::string_view phase) const;

  /// Joins, makes an operator, calls it, and leaves. What it was told at last is a line
  /// "RANK PID end TIME CODE LOST-RANK MESSAGE". Returns the exit code: 0, or 5 where a rank was
  /// lost, or 6.
  int live(const std::function<Result<World>()>& join) const;
  /// Whether all ranks end by themselves.
  [[nodiscard]] bool all_end() const { return ends_ < 0; }

 private:
  void arm() const;

  const int rank_;
  const std::string_view way_;
  const int scale_, calls_, ends_, victim_;
  const std::string_view phase_;
  const long long nanoseconds_;
};

}  // namespace tandem::testing_fault
