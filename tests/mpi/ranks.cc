// SPDX-License-Identifier: Apache-2.0
//
// tests/multi/ranks.h over MPI: the multi-rank tests, unchanged, on worlds whose ranks are
// processes that mpirun started. Every process runs every test; a test for fewer ranks takes the
// first ones, one for more is skipped. Run by tests/mpi/run_mpi.sh on one machine, by tests/cluster
// on several.
#include "tests/multi/ranks.h"

#include <cstdio>
#include <memory>

#include <gtest/gtest.h>

#include "tandem/mpi.h"

namespace tandem::testing_ranks {

std::vector<int> fork_ranks(int size, const std::function<void(const World&)>&,
                            std::chrono::milliseconds) {
  // A rank that dies takes an MPI job with it: tests/cluster looks at that from outside.
  ADD_FAILURE() << "leave this test out by a filter";
  return std::vector<int>(static_cast<std::size_t>(size));
}

TransportSpec transport_here(const TransportSpec&) { return {.kind = TransportKind::mpi}; }

void run_ranks(RanksAs as, int size, const std::function<void(const World&)>& body,
               std::chrono::milliseconds timeout) {
  int rank = 0, all = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &all);
  if (as == RanksAs::processes) return;  // the same as with threads
  if (size > all) GTEST_SKIP() << size << " ranks needed, mpirun started " << all;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank < size ? 0 : MPI_UNDEFINED, rank, &comm);
  if (comm != MPI_COMM_NULL) {
    {
      auto world = mpi::make_world(comm, {.timeout = timeout});
      if (world.ok()) {
        body(*world);
      } else {
        ADD_FAILURE() << "rank " << rank << ": " << world.status().message();
      }
    }
    MPI_Comm_free(&comm);
  }
}

}  // namespace tandem::testing_ranks

int main(int argc, char** argv) {
  int granted = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
  testing::InitGoogleTest(&argc, argv);
  GTEST_FLAG_SET(brief, true);  // every rank says what went wrong on it
  int failed = RUN_ALL_TESTS();
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed;
}
