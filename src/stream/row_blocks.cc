// SPDX-License-Identifier: Apache-2.0
//
// Cuts the gathered rows into blocks. plan_row_blocks() at the end walks the ranks; add_blocks()
// above it cuts one run of rows evenly.
#include "stream/row_blocks.h"

#include <algorithm>

namespace tandem::stream {
namespace {

/// Cuts `all` into the fewest blocks, of even size rather than with a short last
/// one: see block_step().
void add_blocks(const RowBlock& all, const RowBlockPolicy& policy, std::vector<RowBlock>& blocks) {
  if (all.rows == 0) return;
  const std::int64_t step = block_step(all.rows, policy.most_rows, policy.quantum);
  for (std::int64_t done = 0; done < all.rows; done += step) {
    blocks.push_back({all.row0 + done, std::min(step, all.rows - done), all.source, all.sources});
  }
}

}  // namespace

std::int64_t rows_to_share(const RowCosts& costs, std::int64_t most_rows, std::int64_t quantum) {
  if (costs.link <= costs.work) return most_rows;
  const double most = static_cast<double>(most_rows);
  const double free = std::min(most, costs.pass / costs.work);
  return std::clamp(static_cast<std::int64_t>(free), std::min(quantum, most_rows), most_rows);
}

std::int64_t block_step(std::int64_t rows, std::int64_t most_rows, std::int64_t quantum) {
  const std::int64_t count = (rows + most_rows - 1) / most_rows;
  const std::int64_t even = (rows + count - 1) / count;
  return std::min((even + quantum - 1) / quantum * quantum, most_rows);
}

std::vector<RowBlock> plan_row_blocks(std::span<const ChunkPlan> shards,
                                      const RowBlockPolicy& policy) {
  std::vector<std::int64_t> first(shards.size() + 1, 0);
  for (std::size_t r = 0; r < shards.size(); ++r) first[r + 1] = first[r] + shards[r].rows();

  std::vector<RowBlock> blocks;
  // Neighbours in rank order whose shards are small share a block: [begin, end) is the run of
  // ranks that does so far. A run never goes past the last rank, so that its rows are contiguous.
  const std::int64_t shared_rows = std::min(policy.shared_rows, policy.most_rows);
  const auto add_ranks = [&](std::size_t from, std::size_t to) {
    for (std::size_t begin = from; begin < to;) {
      std::size_t end = begin + 1;
      while (end < to && shards[begin].stages() <= 1 && shards[end].stages() <= 1 &&
             first[end + 1] - first[begin] <= shared_rows) {
        ++end;
      }
      const std::int64_t step = end == begin + 1 ? shards[begin].stage_rows() : policy.most_rows;
      for (std::int64_t row = first[begin]; row < first[end]; row += step) {
        add_blocks({row, std::min(step, first[end] - row), static_cast<int>(begin),
                    static_cast<int>(end - begin)},
                   policy, blocks);
      }
      begin = end;
    }
  };
  const auto own = static_cast<std::size_t>(policy.own);
  if (policy.merge_own && first.back() <= shared_rows) {
    add_ranks(0, shards.size());
    return blocks;
  }
  add_ranks(own, own + 1);
  add_ranks(own + 1, shards.size());
  add_ranks(0, own);
  return blocks;
}

}  // namespace tandem::stream
