// SPDX-License-Identifier: Apache-2.0
//
// Counting the tasks of each stage down, and publishing the stages that reach zero.
#include "stream/stage_ledger.h"

#include "platform/delay.h"

namespace tandem::stream {

/// Calls each(source, stage) for every stage of another rank that the block reads.
template <class Visit>
void StageLedger::visit(const RowBlock& block, const Visit& each) const {
  for (int r = block.source; r < block.source + block.sources; ++r) {
    const auto source = static_cast<std::size_t>(r);
    const Shard& shard = arrivals_.shards()[source];
    const Rows part = shard.part(block);
    if (shard.local || part.empty()) continue;
    // No block goes past the end of a stage (row_blocks.h).
    each(source, static_cast<std::size_t>(part.begin / shard.plan.stage_rows()));
  }
}

StageLedger::StageLedger(symm::Window& window, int counter, const Arrivals& arrivals,
                         std::span<const RowBlock> blocks, int parts)
    : window_(window), counter_(counter), arrivals_(arrivals), sources_(arrivals.shards().size()) {
  for (std::size_t r = 0; r < sources_.size(); ++r) {
    const Shard& shard = arrivals.shards()[r];
    if (shard.local) continue;
    sources_[r].stages = shard.plan.stages();
    sources_[r].open =
        std::make_unique<std::atomic<int>[]>(static_cast<std::size_t>(sources_[r].stages));
  }
  for (const RowBlock& block : blocks) {
    // Relaxed: no other thread knows the ledger yet.
    visit(block, [&](std::size_t r, std::size_t stage) {
      sources_[r].open[stage].fetch_add(parts, std::memory_order_relaxed);
    });
  }
}

void StageLedger::finished(const RowBlock& block) {
  visit(block, [&](std::size_t r, std::size_t stage) {
    // Acquire and release: whoever counts to zero has seen all other tasks' reads end, and its
    // notify (release) carries that to the source.
    if (sources_[r].open[stage].fetch_sub(1, std::memory_order_acq_rel) == 1) publish(r);
  });
}

void StageLedger::publish(std::size_t r) {
  const std::lock_guard lock(publishing_);
  Source& source = sources_[r];
  // Acquire: pairs with the fetch_sub of the thread that finished the stage.
  while (source.published < source.stages &&
         source.open[static_cast<std::size_t>(source.published)].load(std::memory_order_acquire) ==
             0) {
    platform::protocol_step("read to stage done");
    window_.notify(static_cast<int>(r), counter_);
    ++source.published;
  }
}

}  // namespace tandem::stream
