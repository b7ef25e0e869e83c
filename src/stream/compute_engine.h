// SPDX-License-Identifier: Apache-2.0
//
// The compute engine: what each compute thread of a rank does during a call. compute() holds the
// one loop of this library; the operators call it on every thread of theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "block/multiply.h"
#include "stream/arrivals.h"
#include "stream/stage_ledger.h"
#include "stream/task_queue.h"
#include "tandem/matrix.h"
#include "tandem/status.h"

namespace tandem::stream {

/// What a call computes. Shared by the compute threads, never changed by them.
struct ComputeJob {
  const block::PackedB* weights = nullptr;
  std::int64_t k = 0;
  Matrix c;                             ///< M × N; used when column_groups > 0
  int column_groups = 0;                ///< parts 0 .. column_groups - 1 of a block multiply
  std::int64_t group_cols = 0;          ///< columns of a group; a multiple of nr
  std::optional<Matrix> gathered_a;     ///< when set, part column_groups of a block copies its rows
  std::chrono::milliseconds timeout{};  ///< of each wait, not of the call
  StageLedger* ledger = nullptr;        ///< told of every finished task; null when all is local

  [[nodiscard]] int parts() const { return column_groups + (gathered_a ? 1 : 0); }
};

/// One thread's working memory, sized by block::packed_a_bytes() and accumulator_bytes().
struct Scratch {
  std::byte* packed_a = nullptr;
  std::byte* accumulators = nullptr;
  std::vector<const std::byte*> rows;  ///< room for mc row addresses
};

/// How the columns of C are shared out: groups of `cols` columns.
struct ColumnGroups {
  int count = 0;
  std::int64_t cols = 0;
};

/// At most nc columns a group, and enough groups that `threads` threads all have work.
[[nodiscard]] ColumnGroups plan_column_groups(const block::PackedB& weights,
                                              const block::Blocking& blocking,
                                              std::int64_t row_blocks, int threads);

/// Works on tasks until none is left or something fails.
Status compute(const ComputeJob& job, const Arrivals& arrivals, TaskQueue& tasks, Scratch& scratch);

}  // namespace tandem::stream
