// SPDX-License-Identifier: Apache-2.0
//
// MPI ranks. Without TANDEM_HAS_MPI only the refusals at the end are compiled.
#include "mpi_ranks.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "tandem/system.h"
#ifdef TANDEM_HAS_MPI
#include "tandem/mpi.h"
#endif

namespace tandem::tool {

#ifdef TANDEM_HAS_MPI
namespace {

bool started = false;
MpiPlace own_place;

/// How many ranks this machine has, and how many of them have the same cores to choose from: all of
/// them unless mpirun binds each to its own.
void count_neighbours(MpiPlace& place) {
  constexpr std::size_t kCpus = 4096;
  std::vector<char> own(kCpus), all;
  for (int cpu : system_info().affinity) own[static_cast<std::size_t>(cpu) % kCpus] = 1;
  MPI_Comm machine = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, place.rank, MPI_INFO_NULL, &machine);
  int size = 1;
  MPI_Comm_size(machine, &size);
  all.resize(kCpus * static_cast<std::size_t>(size));
  MPI_Allgather(own.data(), kCpus, MPI_CHAR, all.data(), kCpus, MPI_CHAR, machine);
  place.neighbours = size;
  place.sharers = 0;
  for (int r = 0; r < size; ++r) {
    const char* other = all.data() + kCpus * static_cast<std::size_t>(r);
    place.sharers += std::memcmp(own.data(), other, kCpus) == 0 ? 1 : 0;
  }
  MPI_Comm_free(&machine);
}

}  // namespace

Result<MpiPlace> mpi_place() {
  if (started) return own_place;
  int granted = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &granted) != MPI_SUCCESS) {
    return Status(StatusCode::kUnsupported, "MPI does not start; its own messages say why");
  }
  started = true;
  MPI_Comm_rank(MPI_COMM_WORLD, &own_place.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &own_place.size);
  count_neighbours(own_place);
  return own_place;
}

int started_mpi_rank() { return started ? own_place.rank : -1; }

Outcome on_mpi(const Job& job, const RankBody& body) {
  auto place = mpi_place();
  if (!place.ok()) return failed(place.status());
  Outcome outcome;
  {
    auto world = job.timeout ? mpi::make_world(MPI_COMM_WORLD, {.timeout = *job.timeout})
                             : mpi::make_world(MPI_COMM_WORLD);
    if (!world.ok()) {
      outcome = failed(world.status());
    } else {
      Outcome no_memory = out_of_memory();
      try {
        outcome = body(*world);
      } catch (const std::bad_alloc&) {
        outcome = std::move(no_memory);
      }
    }
  }
  if (place->rank != 0) outcome.output.clear();
  return outcome;
}

void finish_mpi(int exit_code) {
  if (!started) return;
  if (exit_code != kExitFailure) {
    MPI_Finalize();
    return;
  }
  // MPI_Finalize() would wait for a rank that hangs. The others have the same failure to tell.
  usleep(300'000);
  MPI_Abort(MPI_COMM_WORLD, exit_code);
}

std::string mpi_description() { return mpi::describe(); }

#else

Result<MpiPlace> mpi_place() {
  return Status(StatusCode::kUnsupported,
                "this build of Tandem has no MPI: install it (libopenmpi-dev and openmpi-bin on "
                "Debian), configure again with -DTANDEM_MPI=ON, and build");
}

Outcome on_mpi(const Job&, const RankBody&) { return failed(mpi_place().status()); }

void finish_mpi(int) {}

int started_mpi_rank() { return -1; }

std::string mpi_description() { return "none in this build"; }

#endif

}  // namespace tandem::tool
