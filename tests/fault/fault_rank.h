// SPDX-License-Identifier: Apache-2.0
//
// A rank that kill_sweep.py kills, or that survives and says what it was told. The same with ranks
// of a launcher (fault_rank.cc) and of mpirun (fault_rank_mpi.cc).
#pragma once

#include <functional>

#include "tandem/world.h"

namespace tandem::testing_fault {

/// One step of a rank's way begins: a line "RANK PID PHASE NANOSECONDS" on standard output, whole
/// or not at all. The clock is CLOCK_MONOTONIC.
void enter(int rank, const char* phase);

/// Joins, makes an operator, calls it, and leaves, as the arguments say; every phase is entered.
/// At the end a line "RANK PID end NANOSECONDS CODE LOST-RANK MESSAGE". Returns the exit code: 0,
/// or 5 where a rank was lost, or 6.
///
///   WAY SCALE CALLS RANK-THAT-ENDS     that one (-1: all) makes CALLS calls, the others call on
int live(int argc, char** argv, int rank, const std::function<Result<World>()>& join);

}  // namespace tandem::testing_fault
