// SPDX-License-Identifier: Apache-2.0
//
// Claiming of tasks. next() is the place to start reading.
#include "stream/task_queue.h"

namespace tandem::stream {
namespace {

/// Whether `next` is ready no earlier than `block`, which stands before it: a lower part of the
/// same shard. A block of several shards waits for each of them, and says nothing of others.
bool follows(const RowBlock& block, const RowBlock& next) {
  return block.sources == 1 && next.sources == 1 && next.source == block.source &&
         next.row0 > block.row0;
}

}  // namespace

TaskQueue::TaskQueue(const Arrivals& arrivals, std::span<const RowBlock> blocks, int parts,
                     std::int64_t k, std::int64_t first_k)
    : arrivals_(arrivals), blocks_(blocks), parts_(parts), k_(k), first_k_(first_k) {
  const auto begins_run = [&](std::size_t b) {
    return b == 0 || !follows(blocks_[b - 1], blocks_[b]);
  };
  std::size_t count = 0;
  for (std::size_t b = 0; b < blocks_.size(); ++b) count += begins_run(b) ? 1 : 0;
  runs_ = std::make_unique<Run[]>(count);
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    if (begins_run(b)) ++run_count_;
    Run& run = runs_[run_count_ - 1];
    const std::int64_t first = static_cast<std::int64_t>(b) * parts_;
    // Relaxed: no other thread knows the queue yet.
    if (begins_run(b)) run.next.store(first, std::memory_order_relaxed);
    run.end = first + parts_;
  }
}

// All orders below are relaxed: a claim only decides who does a task. What the task reads is
// ordered by the progress counters, what it writes by the join at the end of the call.
std::optional<Task> TaskQueue::claim(std::int64_t k_end) {
  for (Run& run : runs()) {
    std::int64_t task = run.next.load(std::memory_order_relaxed);
    while (task < run.end && arrivals_.ready(block_of(task), k_end)) {
      // Taken only if it still is the one that was looked at: the next may belong to a block that
      // is not ready.
      if (!run.next.compare_exchange_weak(task, task + 1, std::memory_order_relaxed)) continue;
      return Task{block_of(task), static_cast<int>(task % parts_)};
    }
  }
  return std::nullopt;
}

bool TaskQueue::all_taken() const {
  for (const Run& run : runs()) {
    if (run.next.load(std::memory_order_relaxed) < run.end) return false;
  }
  return true;
}

bool TaskQueue::worth_waking() const {
  bool left = false;
  for (const Run& run : runs()) {
    const std::int64_t task = run.next.load(std::memory_order_relaxed);
    if (task >= run.end) continue;
    if (arrivals_.ready(block_of(task), first_k_)) return true;
    left = true;
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
    if (all_taken()) return std::optional<Task>();

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
