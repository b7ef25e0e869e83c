// SPDX-License-Identifier: Apache-2.0
//
// ChunkPlan: how one rank's shard of A is cut into the pieces that travel. A pure function of the
// shard's shape, so that sender and receiver agree without talking. A chunk is a run of tiles in
// row-major tile order: some whole tile rows, or a part of one tile row. Chunks fill stages, the
// pieces of a shard that a window holds at a time. Used by both engines.
// On a link the sizes that make_plan() found are part of the policy, the same on every rank.
// Source: ComputeOptimalChunkSize() of the PTO AllGather + GEMM example (64 to 128 chunks).
#pragma once

#include <cstdint>

namespace tandem::stream {

/// What does not change between the calls of an operator.
struct TilePolicy {
  std::int64_t k = 1;  ///< columns of A, at least 1
  std::int64_t element_bytes = 2;
  std::int64_t tile_m = 0;              ///< rows of a tile; 0 = chosen for the shard
  std::int64_t tile_k = 0;              ///< columns of a tile; 0 = chosen for the shard
  std::int64_t block_rows = 1;          ///< rows that the multiply takes at a time (mc)
  bool whole_rows = false;              ///< cut along rows only
  std::int64_t stage_rows = kNoStages;  ///< rows that a stage has room for, at least 1
  /// What stands for 0 above where a link carries the chunks: rows of a tile of a shard of several
  /// row blocks, columns of a tile of one that is a single block. 0 = no link.
  std::int64_t link_tile_m = 0, link_tile_k = 0;

  static constexpr std::int64_t kNoStages = std::int64_t{1} << 62;

  /// The same for policies, and versions of the library, that cut every shard alike.
  [[nodiscard]] std::uint64_t hash() const;
};

/// Rows [row0, row0 + rows) × columns [k0, k0 + cols) of a shard.
struct Chunk {
  std::int64_t row0 = 0, rows = 0;
  std::int64_t k0 = 0, cols = 0;
};

/// Chunks are numbered from 0 in row-major order and cover every element exactly once.
class ChunkPlan {
 public:
  ChunkPlan() = default;
  /// A shard of `rows` ≥ 0 rows; 0 rows give 0 chunks.
  ChunkPlan(const TilePolicy& policy, std::int64_t rows);

  [[nodiscard]] std::int64_t chunks() const { return row_groups_ * parts_; }
  [[nodiscard]] Chunk chunk(std::int64_t index) const;
  /// How many chunks, from 0 on, must have arrived before rows [0, row_end) are there in columns
  /// [0, k_end). Both at least 1.
  [[nodiscard]] std::int64_t needed(std::int64_t row_end, std::int64_t k_end) const;

  /// Every chunk lies in one stage: stage s holds rows [s * stage_rows(), (s + 1) * stage_rows()).
  [[nodiscard]] std::int64_t stage_rows() const { return stage_rows_; }
  [[nodiscard]] std::int64_t stages() const { return (rows_ + stage_rows_ - 1) / stage_rows_; }
  /// The first chunk of stage s; of stages(), the number of chunks.
  [[nodiscard]] std::int64_t first_chunk(std::int64_t stage) const;

  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t tile_m() const { return tile_m_; }
  [[nodiscard]] std::int64_t tile_k() const { return tile_k_; }

 private:
  std::int64_t rows_ = 0, k_ = 1;
  std::int64_t tile_m_ = 1, tile_k_ = 1;
  std::int64_t group_rows_ = 1;  ///< matrix rows of a chunk
  std::int64_t part_cols_ = 1;   ///< matrix columns of a chunk
  std::int64_t row_groups_ = 0;  ///< chunks down
  std::int64_t parts_ = 1;       ///< chunks across
  std::int64_t stage_rows_ = 1;
};

/// Of a shard's first `count` chunks, those that travel on `lane`: chunk c takes lane c mod lanes.
[[nodiscard]] constexpr std::int64_t on_lane(std::int64_t count, int lane, int lanes) {
  return (count + lanes - 1 - lane) / lanes;
}

}  // namespace tandem::stream
