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

/// Where the results of a call go.
struct Output {
  Matrix c;  ///< M × N; no data = nothing is multiplied
  const block::Dequantisation* dequantisation = nullptr;  ///< of s8 products, where set
  std::optional<Matrix> accumulators = std::nullopt;      ///< of s8 products: M × N, s32
  std::optional<Matrix> gathered_a = std::nullopt;        ///< M × K
};

/// What a call computes. Shared by the compute threads, never changed by them.
struct ComputeJob {
  const block::PackedB* weights = nullptr;
  Output output;
  std::int64_t group_cols = 0;  ///< columns of a group; a multiple of nr
  int column_groups = 0;  ///< parts 0 .. column_groups - 1 of a block multiply; one more part,
                          ///< where A is gathered, copies its rows
  std::chrono::milliseconds timeout{};  ///< of each wait, not of the call
  StageLedger* ledger = nullptr;        ///< told of every finished task; null when all is local

  [[nodiscard]] int parts() const { return column_groups + (output.gathered_a ? 1 : 0); }
};

/// One thread's working memory, sized by block::packed_a_bytes() and accumulator_bytes().
struct Scratch {
  std::byte* packed_a = nullptr;
  std::byte* accumulators = nullptr;
  std::vector<const std::byte*> rows;  ///< room for mc row addresses
  std::vector<float> row_scales;       ///< room for mc scales
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
