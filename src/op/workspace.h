// SPDX-License-Identifier: Apache-2.0
//
// WorkspacePlan: the layout of a rank's part of an operator's window, as numbers. A pure function
// of the options, so that workspace_bytes() can tell the size before anything is made.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tandem/stream_options.h"

namespace tandem::op {

/// What travels: rows of K elements, and perhaps a scale per row.
struct Travelling {
  std::int64_t k = 1;
  DType type = DType::f16;
  bool row_scales = false;
};

/// A part holds two slots of headers, then the rings of stages: one, or with push one per source.
/// A place of a ring holds stage_rows rows, then their scales.
struct WorkspacePlan {
  WorkspacePlan() = default;
  WorkspacePlan(int ranks, const Travelling& what, const StreamOptions& options);

  std::int64_t stage_rows = 1;
  int stages = 1;
  std::size_t scales_at = 0;  ///< offset of the scales in a place; 0 = there are none
  std::size_t place_bytes = 0;
  std::size_t header_bytes = 0;  ///< of one slot
  std::size_t rings_at = 0;
  std::size_t total = 0;

  [[nodiscard]] std::size_t header_offset(std::uint64_t call) const;
  /// Of the ring that a source's rows take in the part of whoever holds them.
  [[nodiscard]] std::size_t ring_offset(int source) const {
    return rings_at + (ring_per_source ? static_cast<std::size_t>(source) * ring_bytes() : 0);
  }
  [[nodiscard]] std::size_t ring_bytes() const {
    return static_cast<std::size_t>(stages) * place_bytes;
  }

  bool ring_per_source = false;
};

/// Bounds of the options that concern streaming, and that the window's size can be counted.
[[nodiscard]] Status check_stream_options(const StreamOptions& options, std::int64_t k, int ranks);

}  // namespace tandem::op
