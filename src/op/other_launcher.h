// SPDX-License-Identifier: Apache-2.0
//
// Processes that something other than `tandem launch` started as one of several: mpirun, srun,
// torchrun. Without this each would silently be a world of its own. World::from_environment() asks.
#pragma once

#include "tandem/status.h"

namespace tandem {

/// Errors: kInvalidArgument, when the environment says that this process is one of several; with
/// the variables that say so and what to do.
[[nodiscard]] Status check_started_alone();

}  // namespace tandem
