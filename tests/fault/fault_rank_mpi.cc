// SPDX-License-Identifier: Apache-2.0
//
// Ranks that mpirun started. Who fails, or may be left alone by the others, ends without
// MPI_Finalize(), which would wait for ranks that are dead.
#include <cstdlib>

#include <unistd.h>

#include "tandem/mpi.h"
#include "tests/fault/fault_rank.h"

int main(int argc, char** argv) {
  using tandem::testing_fault::FaultRank;
  int rank = -1;
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (const char* text = std::getenv(name)) rank = std::atoi(text);
  }
  if (argc != 1 + FaultRank::kArguments || rank < 0) return 2;
  const FaultRank self(rank, argv + 1);
  self.enter("initialising");
  int granted = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
  const char* timeout = std::getenv("TANDEM_TIMEOUT_MS");
  const std::chrono::milliseconds longest(timeout != nullptr ? std::atoi(timeout) : 30000);
  const int code =
      self.live([&] { return tandem::mpi::make_world(MPI_COMM_WORLD, {.timeout = longest}); });
  if (code != 0 || !self.all_end()) _exit(code);
  MPI_Finalize();
  return 0;
}
