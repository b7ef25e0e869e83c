// SPDX-License-Identifier: Apache-2.0
//
// Claiming of tasks. next() is the place to start reading.
#include "stream/task_queue.h"

namespace tandem::stream {

TaskQueue::TaskQueue(const Arrivals& arrivals, std::vector<RowBlock> blocks, int parts,
                     std::int64_t k, std::int64_t first_k)
    : arrivals_(arrivals),
      blocks_(std::move(blocks)),
      parts_(parts),
      k_(k),
      first_k_(first_k),
      claimed_(std::make_unique<std::atomic<int>[]>(blocks_.size())) {}

// All orders here are relaxed: a claim only decides who does a task. What the task reads is ordered
// by the progress counters, what it writes by the join at the end of the call.
bool TaskQueue::taken(std::size_t block) const {
  return claimed_[block].load(std::memory_order_relaxed) >= parts_;
}

std::optional<Task> TaskQueue::claim(std::int64_t k_end) {
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const RowBlock& block = blocks_[b];
    if (taken(b) || !arrivals_.ready(block.row0, block.row0 + block.rows, k_end)) continue;
    const int part = claimed_[b].fetch_add(1, std::memory_order_relaxed);
    if (part < parts_) return Task{block, part};
  }
  return std::nullopt;
}

bool TaskQueue::worth_waking() const {
  bool left = false;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    if (taken(b)) continue;
    left = true;
    if (arrivals_.ready(blocks_[b].row0, blocks_[b].row0 + blocks_[b].rows, first_k_)) return true;
  }
  return !left;
}

Result<std::optional<Task>> TaskQueue::next(std::chrono::milliseconds timeout) {
  while (true) {
    if (arrivals_.window() != nullptr) {
      if (Status failed = arrivals_.window()->failure(); !failed.ok()) return failed;
    }
    if (auto task = claim(k_)) return task;
    // No block is complete: go on with one whose first columns are here, and follow its chunks.
    if (auto task = claim(first_k_)) return task;
    bool left = false;
    for (std::size_t b = 0; b < blocks_.size(); ++b) left = left || !taken(b);
    if (!left) return std::optional<Task>();

    const auto awaited = [&](int rank) -> std::optional<WaitDetail> {
      const Shard& shard = arrivals_.shards()[static_cast<std::size_t>(rank)];
      if (shard.rows() == 0) return std::nullopt;
      return arrivals_.missing(rank, shard.rows(), k_);
    };
    Status status = arrivals_.window()->wait([&] { return worth_waking(); }, awaited,
                                             platform::Deadline::after(timeout));
    if (!status.ok()) return status;
  }
}

}  // namespace tandem::stream
