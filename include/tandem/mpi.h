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

#include "tandem/export.h"
#include "tandem/world.h"

namespace tandem::mpi {

/// The tags of the messages by which the ranks of make_world() find each other, and say that they
/// give up, on the caller's communicator: the highest that every MPI has. Use others there while a
/// make_world() runs.
inline constexpr int kLowestTag = 32760, kHighestTag = 32767;

/// Collective over `comm`, which stays the caller's. At most kMaxRanks ranks.
///
/// Ranks that can hand each other a descriptor over a local socket are on one machine and share
/// memory; host names play no part. Between machines a thread of the library calls MPI for as long
/// as the world lives, on a communicator of its own, so MPI must have been initialised for
/// MPI_THREAD_MULTIPLE. On one machine any level will do.
///
/// Bounded by the world's timeout: a rank that does not come, or that no network reaches, is an
/// error that names it on those that came, within that time, and on the late one when it comes. All
/// ranks may call again then, as often on each; what MPI itself still had to do stays in its hands,
/// with its memory (a few KiB), and may hold up MPI_Finalize() if a rank never comes.
///
/// Destroy the world and everything made on it before MPI_Finalize(), on every rank at about the
/// same time: the destructor serves its machine until the other ranks there have left too, at most
/// for the world's timeout. A world that lives longer leaves in MPI_Finalize(), in the same manner;
/// its calls then return errors, and its destructor calls MPI no more.
///
/// Errors, on every rank: kUnsupported (MPI is not initialised, or grants too little),
/// kInvalidArgument (communicator, size, timeout), kMismatch (ranks run different versions of
/// Tandem), kTimeout, kIo (also: MPI has no communicators left), kOutOfMemory.
[[nodiscard]] TANDEM_API Result<World> make_world(MPI_Comm comm, WorldOptions options);
/// The same, with the timeout that TANDEM_TIMEOUT_MS gives, or the default one.
[[nodiscard]] TANDEM_API Result<World> make_world(MPI_Comm comm);

/// The MPI that the library was built with, and the thread level it grants this process, as in
/// "Open MPI v4.1.4, thread level MPI_THREAD_MULTIPLE"; without the level before MPI_Init().
[[nodiscard]] TANDEM_API std::string describe();

}  // namespace tandem::mpi
