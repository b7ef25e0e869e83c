// SPDX-License-Identifier: Apache-2.0
//
// The check of all elements of large results of allgather-gemm-dequant: exact sums of a block of
// rows come from a second call of the operator and are not trusted; ProductCheck shows that they
// are right, and the reference's last step makes of them what C must be. docs/numerics.md has the
// argument. allgather_gemm_dequant.cc hands it out.
#pragma once

#include <memory>

#include "operators.h"
#include "tandem/reference.h"
#include "tandem/weights.h"

namespace tandem::tool {

/// Collective. `problem` has this rank's inputs but A; they must stay.
Result<std::unique_ptr<BlockCheck>> make_dequant_check(const World& world, const Job& job,
                                                       const PackedWeights& weights,
                                                       const DequantReference& problem,
                                                       std::int64_t most_rows);

}  // namespace tandem::tool
