// SPDX-License-Identifier: Apache-2.0
//
// The `tandem` command: parses, runs one action, prints its outcome. Sub-commands are in files of
// their own (commands.h); what they share is a Job (job.h), ranks (ranks.h) and an Outcome. It
// uses nothing of the library but include/tandem/.
#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "command_line.h"
#include "mpi_ranks.h"
#include "outcome.h"

int main(int argc, char** argv) {
  using namespace tandem::tool;
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const Invocation invocation = parse_command_line(arguments);
  Outcome outcome = invocation.outcome;
  if (invocation.action) {
    try {
      outcome = invocation.action();
    } catch (const std::bad_alloc&) {
      outcome = out_of_memory();
    }
  }
  const int mpi_rank = started_mpi_rank();
  // Standard output belongs to rank 0, also for an error object.
  const char* variable = std::getenv("TANDEM_RANK");
  std::string rank = variable == nullptr ? "" : variable;
  if (mpi_rank >= 0) rank = std::to_string(mpi_rank);
  if (!rank.empty() && !outcome.message.empty()) {
    outcome.message = "rank " + rank + ": " + outcome.message;
  }
  const int code = print(outcome, invocation.json && (rank.empty() || rank == "0"));
  finish_mpi(code);
  return code;
}
