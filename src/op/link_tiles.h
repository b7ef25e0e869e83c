// SPDX-License-Identifier: Apache-2.0
//
// The tiles that an operator takes where a link carries its chunks and the caller named none: what
// make_plan() (tandem/plan.h) finds best. Pipeline::create() asks, after the ranks have told each
// other what they believe, so that all of them ask the same question.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "block/multiply.h"
#include "stream/chunk_plan.h"
#include "symm/world.h"
#include "tandem/stream_options.h"

namespace tandem::op {

/// What a rank believes of its own part. The slowest rank's belief counts for all.
struct LinkBelief {
  std::int64_t row_picoseconds = 0;      ///< that multiplying one row takes it
  std::int64_t bytes_per_second = 0;     ///< of its link
  std::int64_t latency_nanoseconds = 0;  ///< of its link
  std::int64_t row_quantum = 1;          ///< the multiple of rows that its kernel likes best

  [[nodiscard]] LinkBelief slower(const LinkBelief& other) const;
};

/// From the kernel, the threads and the cores that `ranks` share; nothing is measured.
[[nodiscard]] LinkBelief believe(const block::PackedB& weights, const StreamOptions& options,
                                 int ranks);

/// True where the model is asked: a link, and both tile sizes automatic.
[[nodiscard]] bool plans_for_link(const StreamOptions& options);

/// stream::RowBlockPolicy::shared_rows of this rank, which shares its machine with `ranks` − 1.
[[nodiscard]] std::int64_t shared_rows(const LinkBelief& belief, const block::PackedB& weights,
                                       const StreamOptions& options, int ranks,
                                       std::int64_t most_rows);

/// Fills in link_tile_m and link_tile_k. A pure function of what all ranks agree on.
void plan_for_link(const LinkBelief& belief, int ranks, std::int64_t max_rows,
                   stream::TilePolicy& policy);

}  // namespace tandem::op
