// SPDX-License-Identifier: Apache-2.0
//
// The variables of other launchers. Ranks inherit those of every launcher above them, so the
// innermost has to be asked first: MPI's processes are often children of a daemon that srun
// started.
#include "op/other_launcher.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "platform/environment.h"

namespace tandem {
namespace {

struct Variables {
  const char* launcher;
  const char* size;
  const char* rank;
};
constexpr Variables kLaunchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"mpirun", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
    {"mpiexec", "PMI_SIZE", "PMI_RANK"},
    {"torchrun", "WORLD_SIZE", "RANK"},
};

/// Empty when it is unset or no number: then it is not what we take it for.
std::optional<std::int64_t> number(const char* name) {
  const auto value = platform::env_integer(name, 0, std::numeric_limits<std::int64_t>::max());
  return value.ok() ? *value : std::nullopt;
}

Status refuse(const char* launcher, const std::string& variables) {
  return {StatusCode::kInvalidArgument,
          fmt::format("{} started this process as one of several ({}), but nothing joins them into "
                      "one world: with MPI use tandem::mpi::make_world(), or the command with "
                      "--transport mpi; or start the ranks with `tandem launch`; or, if each is "
                      "to work alone, unset {} or make World::threads(1)",
                      launcher, variables, variables.substr(0, variables.find('=')))};
}

/// srun tells its tasks their step. A batch script and an interactive allocation have the job's
/// SLURM_NTASKS too, and are steps of special numbers, or of none.
Status check_slurm() {
  constexpr std::int64_t kSpecialSteps = 0xfffffff0;
  const auto step = number("SLURM_STEP_ID");
  const auto rank = number("SLURM_PROCID");
  if (!step || !rank || *step >= kSpecialSteps) return {};
  const char* name = number("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  const auto size = number(name);
  if (!size || *size <= 1) return {};
  return refuse("srun",
                fmt::format("SLURM_PROCID={}, SLURM_STEP_ID={}, {}={}", *rank, *step, name, *size));
}

}  // namespace

Status check_started_alone() {
  for (const Variables& v : kLaunchers) {
    const auto size = number(v.size);
    const auto rank = number(v.rank);
    if (!size || !rank) continue;
    if (*size <= 1) return {};
    return refuse(v.launcher, fmt::format("{}={}, {}={}", v.size, *size, v.rank, *rank));
  }
  if (Status s = check_slurm(); !s.ok()) return s;
  // PMIx tells no size. Rank 0 may be alone; the others are refused, which ends the job.
  const auto rank = number("PMIX_RANK");
  if (rank && *rank > 0) return refuse("a PMIx launcher", fmt::format("PMIX_RANK={}", *rank));
  return {};
}

}  // namespace tandem
