// SPDX-License-Identifier: Apache-2.0
//
// TaskQueue: hands the compute threads of a rank their work in the order in which it can be done.
// A task is one row block times one group of columns; a block that is ready is never held up
// behind one that is not. One queue per call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

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
  /// `first_k` columns suffice to start on a block.
  TaskQueue(const Arrivals& arrivals, std::vector<RowBlock> blocks, int parts, std::int64_t k,
            std::int64_t first_k);

  /// The next task, empty when all are taken; blocks while none may start. Thread-safe.
  Result<std::optional<Task>> next(std::chrono::milliseconds timeout);

  [[nodiscard]] std::int64_t tasks() const {
    return static_cast<std::int64_t>(blocks_.size()) * parts_;
  }

 private:
  /// Claims a task of the first block that has arrived up to column k_end.
  std::optional<Task> claim(std::int64_t k_end);
  [[nodiscard]] bool taken(std::size_t block) const;
  /// Nothing is left, or something may start.
  [[nodiscard]] bool worth_waking() const;

  const Arrivals& arrivals_;
  std::vector<RowBlock> blocks_;
  int parts_;
  std::int64_t k_, first_k_;
  std::unique_ptr<std::atomic<int>[]> claimed_;  ///< per block: parts handed out
};

}  // namespace tandem::stream
