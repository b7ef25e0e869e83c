// SPDX-License-Identifier: Apache-2.0
//
// The `tandem` command: parses, runs one action, prints its outcome. Sub-commands are in files of
// their own (commands.h); what they share is a Job (job.h), ranks (ranks.h) and an Outcome. It
// uses nothing of the library but include/tandem/.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "mpi_ranks.h"
#include "outcome.h"
#include "standard_streams.h"

namespace tandem::tool {
namespace {

int command(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const Invocation invocation = parse_command_line(arguments);
  Outcome outcome = invocation.outcome;
  if (invocation.action) {
    Outcome no_memory = out_of_memory();
    try {
      outcome = invocation.action();
    } catch (const std::bad_alloc&) {
      outcome = std::move(no_memory);
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
  // Once for all ranks, by who has started them.
  if (invocation.multiplies && variable == nullptr && mpi_rank <= 0 && outcome.message.empty()) {
    outcome.message = kernel_warnings();
  }
  return print(outcome, invocation.json && (rank.empty() || rank == "0"));
}

}  // namespace
}  // namespace tandem::tool

int main(int argc, char** argv) {
  using namespace tandem::tool;
  keep_standard_descriptors();
  int code = kExitFailure;
  // What is said in these handlers is said without memory: it may be what is missing.
  try {
    code = command(argc, argv);
  } catch (const std::bad_alloc&) {
    say(stderr, "tandem: ");
    say(stderr, kOutOfMemory);
    say(stderr, "\n");
  } catch (const std::exception& error) {
    say(stderr, "tandem: internal error, please report it: ");
    say(stderr, error.what());
    say(stderr, "\n");
  }
  finish_mpi(code);
  return code;
}
