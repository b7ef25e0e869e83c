// SPDX-License-Identifier: Apache-2.0
//
// THE ONE LOOP: multiply() below. For a block of rows and a group of columns it walks K, waits
// until the chunk that completes the next K-block has arrived, packs the rows from wherever they
// lie, and multiplies. The accumulators stay in cache until the last K-block turns them into C,
// which is written once.
#include "stream/compute_engine.h"

#include <algorithm>
#include <cstring>

#include "base/float_environment.h"
#include "platform/delay.h"
#include "tile/contract.h"

namespace tandem::stream {
namespace {

Matrix block_of(const Matrix& m, std::int64_t row0, std::int64_t rows, std::int64_t col0,
                std::int64_t cols) {
  return {m.row(row0) + static_cast<std::size_t>(col0) * size_of(m.type), m.type, rows, cols,
          m.stride};
}

/// Where the block's results go. Scales travel with rows, so this is asked when all have arrived.
block::Epilogue epilogue_of(const ComputeJob& job, const Arrivals& arrivals, const RowBlock& block,
                            std::int64_t col0, std::int64_t cols, Scratch& scratch) {
  const auto part_of = [&](const Matrix& m) {
    return block_of(m, block.row0, block.rows, col0, cols);
  };
  block::Epilogue epilogue{.c = part_of(job.output.c), .factors = job.output.dequantisation};
  if (epilogue.factors == nullptr) return epilogue;
  if (job.output.accumulators) epilogue.sums = part_of(*job.output.accumulators);
  if (arrivals.row_scales(block, scratch.row_scales)) {
    epilogue.row_scales = scratch.row_scales.data();
  }
  return epilogue;
}

Status multiply(const ComputeJob& job, const Arrivals& arrivals, const Task& task,
                Scratch& scratch) {
  const tile::Kernel& kernel = *job.weights->kernel;
  const RowBlock& block = task.block;
  const std::int64_t col0 = task.part * job.group_cols;
  const std::int64_t cols = std::min(job.group_cols, job.weights->n - col0);
  arrivals.rows(block, scratch.rows);

  // Rows that are all here can be fetched ahead of their packing.
  const bool complete = arrivals.ready(block, job.weights->k);
  const std::byte* const* ahead = complete ? scratch.rows.data() : nullptr;
  for (std::int64_t k0 = 0, kc = 0; k0 < job.weights->k; k0 += kc) {
    kc = std::min(kernel.kc - k0 % kernel.kc, job.weights->k - k0);
    // Integer sums may be cut anywhere: what has arrived need not wait for the rest of its block.
    while (kc > tile::kKc && !complete && !arrivals.ready(block, k0 + kc)) {
      kc = (kc / 2 + tile::kKc - 1) / tile::kKc * tile::kKc;
    }
    Status arrived = arrivals.wait(block, k0 + kc, job.timeout);
    if (!arrived.ok()) return arrived;
    platform::protocol_step("arrival to reading");
    block::pack_a(kernel, scratch.rows.data(), block.rows, k0, kc, scratch.packed_a);
    const bool last = k0 + kc == job.weights->k;
    block::multiply(
        *job.weights, scratch.packed_a,
        {.rows = block.rows, .k0 = k0, .kc = kc, .col0 = col0, .cols = cols, .rows_ahead = ahead},
        scratch.accumulators,
        last ? epilogue_of(job, arrivals, block, col0, cols, scratch) : block::Epilogue{});
  }
  return {};
}

Status gather(const ComputeJob& job, const Arrivals& arrivals, const Task& task, Scratch& scratch) {
  const RowBlock& block = task.block;
  Status arrived = arrivals.wait(block, job.weights->k, job.timeout);
  if (!arrived.ok()) return arrived;
  arrivals.rows(block, scratch.rows);
  const Matrix& to = *job.output.gathered_a;
  const std::size_t bytes = static_cast<std::size_t>(job.weights->k) * size_of(to.type);
  for (std::int64_t i = 0; i < block.rows; ++i) {
    std::memcpy(to.row(block.row0 + i), scratch.rows[static_cast<std::size_t>(i)], bytes);
  }
  return {};
}

}  // namespace

ColumnGroups plan_column_groups(const block::PackedB& weights, const block::Blocking& blocking,
                                std::int64_t row_blocks, int threads) {
  // Three tasks a thread keep the last one from leaving the others idle for long.
  constexpr std::int64_t kTasksPerThread = 3;
  const std::int64_t nr = weights.kernel->nr;
  const std::int64_t panels = weights.panels();
  std::int64_t groups = (panels * nr + blocking.nc - 1) / blocking.nc;
  if (threads > 1 && row_blocks > 0) {
    groups = std::max(groups, (kTasksPerThread * threads + row_blocks - 1) / row_blocks);
  }
  groups = std::min(groups, panels);
  const std::int64_t group_panels = (panels + groups - 1) / groups;
  return {static_cast<int>((panels + group_panels - 1) / group_panels), group_panels * nr};
}

Status compute(const ComputeJob& job, const Arrivals& arrivals, TaskQueue& tasks,
               Scratch& scratch) {
  const base::FloatEnvironment environment;
  while (true) {
    auto task = tasks.next(job.timeout);
    if (!task.ok()) return task.status();
    if (!task->has_value()) return {};
    Status done = (*task)->part < job.column_groups ? multiply(job, arrivals, **task, scratch)
                                                    : gather(job, arrivals, **task, scratch);
    if (!done.ok()) return done;
    if (job.ledger != nullptr) job.ledger->finished((*task)->block);
  }
}

}  // namespace tandem::stream
