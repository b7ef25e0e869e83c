// SPDX-License-Identifier: Apache-2.0
//
// StreamOptions: how the rows of A travel and who works on them. The same for every streaming
// operator, and fixed when one is made.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tandem/export.h"
#include "tandem/status.h"
#include "tandem/transport.h"
#include "tandem/types.h"

namespace tandem {

inline constexpr int kMaxLanes = 16;
inline constexpr int kMaxStages = 64;

/// How much of A a window holds.
enum class Workspace : std::uint8_t {
  full,    ///< whole shards, two calls deep
  staged,  ///< `stages` places of a few row blocks each, used in turn
  direct,  ///< nothing but A itself: the caller writes it where acquire_input() says. Pull only
};

[[nodiscard]] TANDEM_API std::string_view name(Workspace workspace);
[[nodiscard]] TANDEM_API std::optional<Workspace> parse_workspace(std::string_view text);

struct StreamOptions {
  std::int64_t max_rows = 0;  ///< capacity: most rows any one rank brings to a call; at least 1
  Transfer transfer = Transfer::pull;
  TransportSpec transport = {};  ///< shm (default), or sim with a link
  int compute_threads = 1;       ///< threads that multiply, the calling thread included; 1..1024
  int comm_threads = 1;          ///< communication lanes, one thread each; 1..kMaxLanes
  Workspace workspace = Workspace::full;
  /// With Workspace::staged: rows of a place, 0 makes it three row blocks of the multiply (the
  /// seed's commInterval); and places per source, 1..kMaxStages (the seed's WORKSPACE_STAGES).
  std::int64_t stage_rows = 0;
  int stages = 2;
  std::int64_t tile_m = 0;  ///< rows of a tile of A, 0 = automatic
  std::int64_t tile_k = 0;  ///< columns of a tile of A, 0 = automatic
  /// Longest time one wait of a call may take; 0 takes the world's.
  std::chrono::milliseconds timeout{0};
};

/// Bytes of a rank's window for an operator of these options. `a_type` is the type that travels
/// (s8 where rows are quantised on the way), `row_scales` whether a scale per row does too.
/// kInvalidArgument when the options are out of bounds.
[[nodiscard]] TANDEM_API Result<std::int64_t> workspace_bytes(int ranks, std::int64_t k,
                                                              DType a_type, bool row_scales,
                                                              const StreamOptions& options);

}  // namespace tandem
