// SPDX-License-Identifier: Apache-2.0
//
// Ranks that mpirun started: this process is one of them, and the others run the same command
// somewhere. The only file of the command that knows MPI; in a build without it, it says so.
#pragma once

#include <string>

#include "job.h"
#include "ranks.h"

namespace tandem::tool {

struct MpiPlace {
  int rank = 0, size = 1;
  int neighbours = 1;  ///< ranks of this machine, this one included
  int sharers = 1;     ///< of these, ranks that may use the same cores as this one
};

/// Starts MPI when asked for the first time. Errors: kUnsupported (a build without MPI, or an MPI
/// that grants too little).
[[nodiscard]] Result<MpiPlace> mpi_place();

/// This process's rank once MPI has been started, else -1.
[[nodiscard]] int started_mpi_rank();

/// Runs the body as the rank that this process is.
[[nodiscard]] Outcome on_mpi(const Job& job, const RankBody& body);

/// To be called last, with the exit code of this process: ends MPI if it was started. After a
/// failure that other ranks may not know of it ends the whole job.
void finish_mpi(int exit_code);

/// "Open MPI v4.1.4, …", or that there is none.
[[nodiscard]] std::string mpi_description();

}  // namespace tandem::tool
