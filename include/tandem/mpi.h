// SPDX-License-Identifier: Apache-2.0
//
// A world whose ranks are those of an MPI communicator: on several machines, or on one. The only
// public header that needs MPI, and not part of tandem.h; link tandem::mpi (which brings
// tandem::tandem). The world is an ordinary one afterwards: the same operators, the same calls, the
// same bits.
//
//   int granted = 0;
//   MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
//   {
//     auto world = tandem::mpi::make_world(MPI_COMM_WORLD);
//     …
//   }  // the world and what was made of it end before
//   MPI_Finalize();
//
// The library is built against one MPI. MPI_Comm is another type in another MPI, so a program that
// is built with that does not link: it cannot go wrong at run time.
#pragma once

#include <string>

#include <mpi.h>

#include "tandem/world.h"

namespace tandem::mpi {

/// Collective over `comm`, which stays the caller's. At most kMaxRanks ranks.
///
/// Ranks that can hand each other a descriptor over a local socket are on one machine and share
/// memory; host names play no part. Between machines a thread of the library calls MPI for as long
/// as the world lives, on a communicator of its own, so MPI must have been initialised for
/// MPI_THREAD_MULTIPLE. On one machine any level will do.
///
/// The world and everything made on it must be destroyed before MPI_Finalize(), on every rank at
/// about the same time: the destructor serves its machine until the other ranks there have left
/// too, at most for the world's timeout.
///
/// Errors, on every rank: kUnsupported (MPI is not initialised, or grants too little),
/// kInvalidArgument (size, timeout), kMismatch (ranks run different versions of Tandem),
/// kTimeout, kIo, kOutOfMemory.
[[nodiscard]] Result<World> make_world(MPI_Comm comm, WorldOptions options = {});

/// The MPI that the library was built with, and the thread level it grants this process, as in
/// "Open MPI v4.1.4, thread level MPI_THREAD_MULTIPLE"; without the level before MPI_Init().
[[nodiscard]] std::string describe();

}  // namespace tandem::mpi
