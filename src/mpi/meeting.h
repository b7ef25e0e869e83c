// SPDX-License-Identifier: Apache-2.0
//
// meet(): finds out which ranks of a communicator are on one machine, and gives those one memory
// file. A machine is whoever can hand each other a descriptor over a local socket: neither host
// names, which containers and mistakes share, nor addresses count. Called once, by make_world().
#pragma once

#include <cstdint>
#include <memory>

#include "mpi/roll_call.h"
#include "symm/machines.h"
#include "symm/world_memory.h"
#include "tandem/status.h"

namespace tandem::mpi {

struct Meeting {
  symm::Machines machines{1};
  std::shared_ptr<symm::WorldMemory> memory;
};

/// Collective, bounded by the roll call's deadline. Never takes a rank for one of another machine
/// that ought to be reachable by a local socket, being of the same kernel, namespaces and user:
/// that is an error. Errors, on every rank: kMismatch, kTimeout, kIo, kOutOfMemory,
/// kInvalidArgument (TANDEM_TEST_MACHINES).
[[nodiscard]] Result<Meeting> meet(RollCall& roll, std::uint64_t piece_bytes);

}  // namespace tandem::mpi
