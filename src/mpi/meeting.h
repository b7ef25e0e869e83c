// SPDX-License-Identifier: Apache-2.0
//
// meet(): finds out which ranks of a communicator are on one machine, and gives those one memory
// file. A machine is whoever can hand each other a descriptor over a local socket: neither host
// names, which containers and mistakes share, nor addresses count. Called once, by make_world().
#pragma once

#include <chrono>
#include <memory>

#include <mpi.h>

#include "symm/machines.h"
#include "symm/world_memory.h"
#include "tandem/status.h"

namespace tandem::mpi {

struct Meeting {
  symm::Machines machines{1};
  std::shared_ptr<symm::WorldMemory> memory;
};

/// Collective. Errors, on every rank: kMismatch, kTimeout, kIo, kOutOfMemory, kInvalidArgument
/// (TANDEM_TEST_MACHINES).
[[nodiscard]] Result<Meeting> meet(MPI_Comm comm, std::uint64_t piece_bytes,
                                   std::chrono::milliseconds timeout);

/// Collective: `own`, or, when that is ok and another rank's is not, its code and its rank.
[[nodiscard]] Status agree(MPI_Comm comm, const Status& own);

}  // namespace tandem::mpi
