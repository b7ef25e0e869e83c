// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of ChunkPlan. Read the constructor: it picks the tile, then how many tiles make a
// chunk; everything else follows by division.
#include "stream/chunk_plan.h"

#include <algorithm>

#include "tile/contract.h"

namespace tandem::stream {
namespace {

/// Below 16 KiB a chunk's notify (0.1 to 1 µs) is no longer small beside its copy (about 2 µs).
constexpr std::int64_t kMinChunkBytes = 16 << 10;
/// The seed keeps 64 to 128 chunks per source: fine enough to overlap, coarse enough to be cheap.
constexpr std::int64_t kMaxChunks = 128;
constexpr std::int64_t kTargetChunks = 96;
/// Automatic tiles have whole multiples of this many rows, so that chunk borders fall on the
/// register blocks of most kernels.
constexpr std::int64_t kRowQuantum = 8;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::uint64_t TilePolicy::hash() const {
  const std::int64_t parts[] = {k,
                                element_bytes,
                                tile_m,
                                tile_k,
                                block_rows,
                                whole_rows,
                                stage_rows,
                                link_tile_m,
                                link_tile_k,
                                tile::kKc,
                                kMinChunkBytes,
                                kMaxChunks,
                                kTargetChunks,
                                kRowQuantum};
  // FNV-1a, over 64-bit words.
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::int64_t part : parts) {
    hash = (hash ^ static_cast<std::uint64_t>(part)) * 0x100000001b3u;
  }
  return hash;
}

ChunkPlan::ChunkPlan(const TilePolicy& policy, std::int64_t rows) : rows_(rows), k_(policy.k) {
  // A shard that the multiply takes in one go is cut along K only: each arrival lets the multiply
  // go on to the next K-block, and B is still read once.
  const bool one_block = rows <= policy.block_rows;
  tile_m_ = policy.tile_m;
  if (tile_m_ == 0) {
    tile_m_ = one_block ? std::max<std::int64_t>(rows, 1)
              : policy.link_tile_m > 0
                  ? policy.link_tile_m
                  : ceil_div(ceil_div(rows, kTargetChunks), kRowQuantum) * kRowQuantum;
  }
  tile_k_ = policy.whole_rows ? k_ : policy.tile_k;
  if (tile_k_ == 0) {
    tile_k_ = !one_block ? k_ : policy.link_tile_k > 0 ? policy.link_tile_k : tile::kKc;
  }
  tile_k_ = std::min(tile_k_, k_);

  const std::int64_t tiles_down = ceil_div(rows, tile_m_);
  const std::int64_t tiles_across = ceil_div(k_, tile_k_);
  const std::int64_t bytes = rows * k_ * policy.element_bytes;
  const std::int64_t most = std::clamp<std::int64_t>(bytes / kMinChunkBytes, 1, kMaxChunks);

  if (tiles_down >= most) {
    group_rows_ = ceil_div(tiles_down, most) * tile_m_;
    part_cols_ = k_;
  } else {
    group_rows_ = tile_m_;
    const std::int64_t parts = tiles_down == 0 ? 1 : std::min(most / tiles_down, tiles_across);
    part_cols_ = ceil_div(tiles_across, parts) * tile_k_;
  }
  // A stage holds whole chunks, or the whole shard.
  group_rows_ = std::min(group_rows_, policy.stage_rows);
  stage_rows_ =
      rows <= policy.stage_rows ? policy.stage_rows : policy.stage_rows / group_rows_ * group_rows_;
  row_groups_ = ceil_div(rows, group_rows_);
  parts_ = ceil_div(k_, part_cols_);
}

Chunk ChunkPlan::chunk(std::int64_t index) const {
  Chunk chunk;
  chunk.row0 = index / parts_ * group_rows_;
  chunk.rows = std::min(group_rows_, rows_ - chunk.row0);
  chunk.k0 = index % parts_ * part_cols_;
  chunk.cols = std::min(part_cols_, k_ - chunk.k0);
  return chunk;
}

std::int64_t ChunkPlan::first_chunk(std::int64_t stage) const {
  return ceil_div(std::min(stage * stage_rows_, rows_), group_rows_) * parts_;
}

std::int64_t ChunkPlan::needed(std::int64_t row_end, std::int64_t k_end) const {
  return (row_end - 1) / group_rows_ * parts_ + (k_end - 1) / part_cols_ + 1;
}

}  // namespace tandem::stream
