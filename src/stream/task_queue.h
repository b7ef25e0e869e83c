// SPDX-License-Identifier: Apache-2.0
//
// TaskQueue: hands the compute threads of a rank their work in the order in which it can be done.
// A task is one row block times one group of columns; a block that is ready is never held up
// behind one that is not. One queue per call. A claim costs the same however many blocks there
// are: it looks at one block of each rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "stream/arrivals.h"
#include "stream/row_blocks.h"
#include "tandem/status.h"

namespace tandem::stream {

struct Task {
  RowBlock block;
  int part = 0;  ///< 0 .. parts - 1; what a part means is the compute engine's matter
};

class TaskQueue {
 public:
  /// `parts` tasks for each of `blocks`, which must outlive the queue. `first_k` columns suffice to
  /// start on a block.
  TaskQueue(const Arrivals& arrivals, std::span<const RowBlock> blocks, int parts, std::int64_t k,
            std::int64_t first_k);

  /// The next task: of the first block in the list that is complete, else of the first one whose
  /// first columns are there. Empty when all tasks are taken; blocks while none may start.
  /// Thread-safe.
  Result<std::optional<Task>> next(std::chrono::milliseconds timeout);

  [[nodiscard]] std::int64_t tasks() const {
    return static_cast<std::int64_t>(blocks_.size()) * parts_;
  }

 private:
  /// Blocks that become ready in their order, so that only the first of those that are left has to
  /// be looked at. Tasks are numbered through the list: block · parts + part.
  struct Run {
    std::atomic<std::int64_t> next{0};  ///< its first task that nobody has
    std::int64_t end = 0;
  };

  [[nodiscard]] std::span<Run> runs() const { return {runs_.get(), run_count_}; }
  [[nodiscard]] const RowBlock& block_of(std::int64_t task) const {
    return blocks_[static_cast<std::size_t>(task / parts_)];
  }
  /// Claims a task of the first block that has arrived up to column k_end.
  std::optional<Task> claim(std::int64_t k_end);
  [[nodiscard]] bool all_taken() const;
  /// Nothing is left, or something may start.
  [[nodiscard]] bool worth_waking() const;

  const Arrivals& arrivals_;
  std::span<const RowBlock> blocks_;
  int parts_;
  std::int64_t k_, first_k_;
  std::size_t run_count_ = 0;
  std::unique_ptr<Run[]> runs_;
};

}  // namespace tandem::stream
