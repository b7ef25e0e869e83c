// SPDX-License-Identifier: Apache-2.0
//
// Arrivals: gathered A as one call sees it, row by row: where each row lies (in the caller's own
// matrix, a peer's window or this rank's window) and whether it has arrived. The compute engine
// asks, the communication engines of the peers answer through the progress counters.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stream/call_header.h"
#include "stream/chunk_plan.h"
#include "stream/row_blocks.h"
#include "symm/window.h"
#include "tandem/allgather_gemm.h"

namespace tandem::stream {

/// The places in a window that a source's stages take in turn. Stages are numbered through all
/// calls, so that the next call goes on where the last one stopped.
struct StageRing {
  std::uint64_t first = 0;  ///< number of this call's stage 0
  int places = 1;
  std::size_t place_bytes = 0;

  [[nodiscard]] std::size_t offset(std::int64_t stage) const {
    const std::uint64_t number = first + static_cast<std::uint64_t>(stage);
    return static_cast<std::size_t>(number % static_cast<std::uint64_t>(places)) * place_bytes;
  }
};

/// Rows [begin, end) of a shard.
struct Rows {
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] bool empty() const { return begin >= end; }
};

/// The rows of one rank.
struct Shard {
  const std::byte* data = nullptr;  ///< element (0, 0); of a shard that travels, the ring of stages
  std::size_t pitch = 0;            ///< bytes from row to row
  std::int64_t row0 = 0;            ///< its first row in gathered A
  ChunkPlan plan;
  bool local = true;  ///< there from the start, in one piece
  /// Scales of the rows: of a local shard, the first; of one that travels, scales_at bytes behind
  /// the rows of each place.
  const float* scales = nullptr;
  bool scaled = false;
  std::size_t scales_at = 0;
  // Only for shards that travel:
  StageRing ring;
  int counter = 0;                              ///< progress counter of lane 0
  std::array<std::uint32_t, kMaxLanes> base{};  ///< per lane, its value before this call

  [[nodiscard]] std::int64_t rows() const { return plan.rows(); }
  /// Those of its rows that are in the block.
  [[nodiscard]] Rows part(const RowBlock& block) const {
    return {std::max(block.row0 - row0, std::int64_t{0}),
            std::min(block.row0 + block.rows - row0, rows())};
  }
  [[nodiscard]] const std::byte* address(std::int64_t row) const;  ///< of element (row, 0)
  [[nodiscard]] const float* scale(std::int64_t row) const;        ///< where it has scales

 private:
  /// Where the stage that holds the row lies.
  [[nodiscard]] const std::byte* place(std::int64_t row) const;
};

/// Thread-safe: all members may be called from every compute thread.
class Arrivals {
 public:
  /// `window` and `headers` may be null when every shard is local.
  Arrivals(std::vector<Shard> shards, int lanes, symm::Window* window, CallHeaders* headers,
           std::uint64_t call)
      : shards_(std::move(shards)),
        lanes_(lanes),
        window_(window),
        headers_(headers),
        call_(call) {}

  [[nodiscard]] const std::vector<Shard>& shards() const { return shards_; }
  /// Addresses of the first elements of the block's rows; `to` has room for all.
  void rows(const RowBlock& block, std::span<const std::byte*> to) const;
  /// Scales of the block's rows; false when this call's rows have none.
  [[nodiscard]] bool row_scales(const RowBlock& block, std::span<float> to) const;

  /// True when the block's rows are there in columns [0, k_end). Acquire. Of two blocks of one rank
  /// the upper one is ready no later than the lower one: chunks of a lane arrive in order.
  [[nodiscard]] bool ready(const RowBlock& block, std::int64_t k_end) const;
  /// Blocks until ready(), or returns why it never will be.
  Status wait(const RowBlock& block, std::int64_t k_end, std::chrono::milliseconds timeout) const;
  /// Blocks until every rank's header agrees: also those that bring no rows.
  Status wait_headers(std::chrono::milliseconds timeout) const;

  /// What is still to come from a rank out of its first `rows` rows and columns [0, k_end).
  [[nodiscard]] std::optional<WaitDetail> missing(int rank, std::int64_t rows,
                                                  std::int64_t k_end) const;
  [[nodiscard]] symm::Window* window() const { return window_; }

 private:
  [[nodiscard]] bool arrived(int rank, std::int64_t rows, std::int64_t k_end) const;

  std::vector<Shard> shards_;
  int lanes_;
  symm::Window* window_;
  CallHeaders* headers_;
  std::uint64_t call_;
};

}  // namespace tandem::stream
