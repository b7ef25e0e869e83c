// SPDX-License-Identifier: Apache-2.0
//
// Ranks that mpirun started. Who is the only one to end goes without MPI_Finalize(), which would
// wait for ranks that are dead.
#include <cstdio>
#include <cstdlib>

#include <unistd.h>

#include "tandem/mpi.h"
#include "tests/fault/fault_rank.h"

int main(int argc, char** argv) {
  using namespace tandem::testing_fault;
  int rank = -1;
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (const char* text = std::getenv(name)) rank = std::atoi(text);
  }
  enter(rank, "initialising");
  int granted = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
  const char* timeout = std::getenv("TANDEM_TIMEOUT_MS");
  const int code = live(argc, argv, rank, [&] {
    return tandem::mpi::make_world(
        MPI_COMM_WORLD,
        {.timeout = std::chrono::milliseconds(timeout != nullptr ? std::atoi(timeout) : 30000)});
  });
  if (code != 0 || std::atoi(argv[4]) >= 0) _exit(code);
  MPI_Finalize();
  return code;
}
