// SPDX-License-Identifier: Apache-2.0
//
// Ranks that join by their environment, started by `tandem launch`, or by this program itself as a
// parent that does no more than it must: it makes the memory, hands it over, and tells nobody when
// a rank has ended.
//
//   fault_rank ARGUMENTS                        a rank; they are those of FaultRank
//   fault_rank --parent RANKS ARGUMENTS…         starts ranks and waits for them
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symm/world.h"
#include "tests/fault/fault_rank.h"

namespace {

int start(int ranks, char** arguments) {
  auto memory = tandem::symm::make_rendezvous(ranks);
  if (!memory.ok()) return 2;
  fcntl(*memory, F_SETFD, 0);
  setenv("TANDEM_SIZE", std::to_string(ranks).c_str(), 1);
  setenv("TANDEM_FD", std::to_string(*memory).c_str(), 1);
  for (int r = 0; r < ranks; ++r) {
    setenv("TANDEM_RANK", std::to_string(r).c_str(), 1);
    if (fork() == 0) {
      execv("/proc/self/exe", arguments);
      _exit(127);
    }
  }
  while (wait(nullptr) > 0) {
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  using tandem::testing_fault::FaultRank;
  if (argc == 3 + FaultRank::kArguments && std::string(argv[1]) == "--parent") {
    const int ranks = std::atoi(argv[2]);
    argv[2] = argv[0];
    return start(ranks, argv + 2);
  }
  const char* rank = std::getenv("TANDEM_RANK");
  if (argc != 1 + FaultRank::kArguments || rank == nullptr) return 2;
  return FaultRank(std::atoi(rank), argv + 1).live([] {
    return tandem::World::from_environment();
  });
}
