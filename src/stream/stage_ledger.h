// SPDX-License-Identifier: Apache-2.0
//
// StageLedger: tells the sources when this rank has finished with their stages, so that they may
// write the next rows there. A stage is finished when every task that reads it is, and stages are
// published in order, whatever the order in which the tasks end. One ledger per call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "stream/arrivals.h"
#include "stream/row_blocks.h"
#include "symm/window.h"

namespace tandem::stream {

class StageLedger {
 public:
  /// `parts` tasks per block. `counter` is this rank's stage counter in every source's part.
  StageLedger(symm::Window& window, int counter, const Arrivals& arrivals,
              std::span<const RowBlock> blocks, int parts);

  /// A task on this block has read all that it will read. Thread-safe.
  void finished(const RowBlock& block);

 private:
  struct Source {
    std::unique_ptr<std::atomic<int>[]> open;  ///< per stage: tasks that still read it
    std::int64_t stages = 0;
    std::int64_t published = 0;  ///< guarded by publishing_
  };
  template <class Visit>
  void visit(const RowBlock& block, const Visit& each) const;
  void publish(std::size_t source);

  symm::Window& window_;
  int counter_;
  const Arrivals& arrivals_;
  std::vector<Source> sources_;
  std::mutex publishing_;
};

}  // namespace tandem::stream
