// SPDX-License-Identifier: Apache-2.0
//
// Cuts the gathered rows into blocks. plan_row_blocks() at the end walks the ranks; add_blocks()
// above it cuts one run of rows evenly.
#include "stream/row_blocks.h"

#include <algorithm>

namespace tandem::stream {
namespace {

/// Cuts rows [row0, row0 + rows) into the fewest blocks, of even size rather than with a short last
/// one.
void add_blocks(std::int64_t row0, std::int64_t rows, const RowBlockPolicy& policy,
                std::vector<RowBlock>& blocks) {
  if (rows == 0) return;
  const std::int64_t count = (rows + policy.most_rows - 1) / policy.most_rows;
  const std::int64_t even = (rows + count - 1) / count;
  const std::int64_t quanta = (even + policy.quantum - 1) / policy.quantum;
  const std::int64_t step = std::min(quanta * policy.quantum, policy.most_rows);
  for (std::int64_t done = 0; done < rows; done += step) {
    blocks.push_back({row0 + done, std::min(step, rows - done)});
  }
}

}  // namespace

std::vector<RowBlock> plan_row_blocks(std::span<const std::int64_t> shards,
                                      const RowBlockPolicy& policy) {
  const int ranks = static_cast<int>(shards.size());
  std::vector<std::int64_t> first(shards.size() + 1, 0);
  for (std::size_t r = 0; r < shards.size(); ++r) first[r + 1] = first[r] + shards[r];

  std::vector<RowBlock> blocks;
  if (policy.merge_own && first.back() <= policy.most_rows) {
    add_blocks(0, first.back(), policy, blocks);
    return blocks;
  }
  // Neighbours in rank order whose shards are small share a block: [begin, end) is the run of
  // ranks that does so far. A run never goes past the last rank, so that its rows are contiguous.
  const auto add_ranks = [&](int from, int to) {
    for (int begin = from; begin < to;) {
      int end = begin + 1;
      while (end < to &&
             first[static_cast<std::size_t>(end) + 1] - first[static_cast<std::size_t>(begin)] <=
                 policy.most_rows) {
        ++end;
      }
      const std::int64_t row0 = first[static_cast<std::size_t>(begin)];
      add_blocks(row0, first[static_cast<std::size_t>(end)] - row0, policy, blocks);
      begin = end;
    }
  };
  add_ranks(policy.own, policy.own + 1);
  add_ranks(policy.own + 1, ranks);
  add_ranks(0, policy.own);
  return blocks;
}

}  // namespace tandem::stream
