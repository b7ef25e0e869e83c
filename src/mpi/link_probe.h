// SPDX-License-Identifier: Apache-2.0
//
// probe_link(): latency and bandwidth between machines, measured once as a world is made, so that
// operators choose their chunks for the network that is there. The chunk plan needs them to within
// a factor of two.
#pragma once

#include <mpi.h>

#include "mpi/roll_call.h"
#include "symm/machines.h"
#include "tandem/transport.h"

namespace tandem::mpi {

/// Collective, bounded by the roll call's deadline. The same on every rank: of the links between
/// rank 0's machine and each other one, the longest latency and the lowest bandwidth. Takes about
/// 30 ms per machine at 1 Gbit/s. Errors: kTimeout, kIo.
[[nodiscard]] Result<Link> probe_link(RollCall& roll, MPI_Comm comm,
                                      const symm::Machines& machines);

}  // namespace tandem::mpi
