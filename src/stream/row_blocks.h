// SPDX-License-Identifier: Apache-2.0
//
// RowBlocks: in which pieces, and in which order, a rank multiplies the gathered rows. Its own rows
// come first since they need no waiting, then its peers' from the next rank on, in the order in
// which they are sent. A pure function; the compute engine claims its result block by block.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "stream/chunk_plan.h"

namespace tandem::stream {

/// Rows [row0, row0 + rows) of gathered A and of C. A block may hold the rows of several ranks:
/// all are of ranks [source, source + sources), some of which may bring none.
struct RowBlock {
  std::int64_t row0 = 0;
  std::int64_t rows = 0;
  int source = 0, sources = 1;
};

struct RowBlockPolicy {
  int own = 0;                 ///< this rank
  std::int64_t most_rows = 1;  ///< rows of a block at most (mc)
  std::int64_t quantum = 1;    ///< blocks have multiples of this many rows where they can (mr)
  /// Small shards may share a block with this rank's own rows: B is then read once for all, which
  /// pays where the peers' rows arrive sooner than one pass over B takes.
  bool merge_own = true;
  /// Neighbours share a block while it has at most this many rows (and most_rows).
  std::int64_t shared_rows = std::numeric_limits<std::int64_t>::max();
};

/// Seconds: multiplying a row, reading B once, carrying a row over the link.
struct RowCosts {
  double work = 0, pass = 0, link = 0;
};

/// RowBlockPolicy::shared_rows where a link brings the peers' rows. Sharing a block saves passes
/// over B, but the block waits for the last of its shards. Where the link is the slower one, that
/// makes the end later; so there blocks are shared only as long as that costs nothing: up to the
/// rows whose arithmetic takes as long as one pass over B, or that fill a register block.
[[nodiscard]] std::int64_t rows_to_share(const RowCosts& costs, std::int64_t most_rows,
                                         std::int64_t quantum);

/// The rows of all blocks but the last when a run of `rows` ≥ 1 rows is cut.
[[nodiscard]] std::int64_t block_step(std::int64_t rows, std::int64_t most_rows,
                                      std::int64_t quantum);

/// Every row exactly once. `shards` holds the plans of every rank in rank order. No block goes past
/// the end of a stage.
[[nodiscard]] std::vector<RowBlock> plan_row_blocks(std::span<const ChunkPlan> shards,
                                                    const RowBlockPolicy& policy);

}  // namespace tandem::stream
