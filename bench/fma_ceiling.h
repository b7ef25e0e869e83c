// SPDX-License-Identifier: Apache-2.0
//
// The ceiling that kernels are measured against: independent FMA chains that never leave the
// registers, with the vectors of one kernel target.
#pragma once

#include <cstdint>
#include <string_view>

namespace tandem::bench {

/// Runs `steps` rounds of 12 independent vector FMAs and returns the floating-point operations
/// done (2 per lane). The target must run on this CPU; without vectors it counts one lane.
double run_fma_chains(std::string_view target, std::int64_t steps);

}  // namespace tandem::bench
