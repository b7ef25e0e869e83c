// SPDX-License-Identifier: Apache-2.0
//
// The blocked multiply over packed panels. stream/compute_engine.cc drives it: for each K-block
// pack A rows, multiply them with the packed weights into accumulators that stay in L2, and with
// the last K-block turn them into C. One Scratch per compute thread; PackedB is shared and
// immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/cpu_features.h"
#include "tandem/matrix.h"
#include "tile/contract.h"
#include "tile/kernel.h"

namespace tandem::block {

/// Rows and columns of C that one thread accumulates at a time; multiples of mr and nr.
struct Blocking {
  std::int64_t mc = 0;
  std::int64_t nc = 0;
};

/// From the caches: the derivation is at the definition.
[[nodiscard]] Blocking blocking_for(const tile::Kernel& kernel, const base::CacheSizes& caches);

/// Packed weights, K-block by K-block: within one, the panels of nr columns follow each other, each
/// kc × nr elements, so that a multiply reads neighbouring panels as one stream. `data` is owned by
/// the op layer, 64-byte aligned.
struct PackedB {
  const tile::Kernel* kernel = nullptr;
  std::int64_t k = 0;
  std::int64_t n = 0;
  std::byte* data = nullptr;
  const std::int32_t* bias = nullptr;  ///< s8: for every packed column; null when all zero

  [[nodiscard]] std::int64_t panels() const { return (n + kernel->nr - 1) / kernel->nr; }
  /// Bytes of one step of k in a panel.
  [[nodiscard]] std::int64_t step_bytes() const {
    return kernel->nr * static_cast<std::int64_t>(kernel->b_bytes);
  }
  [[nodiscard]] std::size_t panel_bytes() const;  ///< of one panel, all of K
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(panels()) * panel_bytes();
  }
  /// Step `step` of a panel: the beginning of a K-block, or a whole number of groups further.
  [[nodiscard]] const std::byte* at(std::int64_t panel, std::int64_t step) const;
};

/// Packs panels [begin, end) of `b` into `out`; disjoint ranges may be packed concurrently.
void pack_b(ConstMatrix b, BLayout layout, std::int64_t begin, std::int64_t end, PackedB& out);

/// Bytes of packed A, and of accumulators, that one thread needs. Both 64-byte aligned.
[[nodiscard]] std::size_t packed_a_bytes(const tile::Kernel& kernel, const Blocking& blocking);
[[nodiscard]] std::size_t accumulator_bytes(const tile::Kernel& kernel, const Blocking& blocking);

/// Packs `count` (≤ mc) rows of kc elements. rows[i] points at row i's element 0 (k = 0) and the
/// block starts at element k0: rows may lie anywhere, in several ranks' windows.
void pack_a(const tile::Kernel& kernel, const std::byte* const* rows, std::int64_t count,
            std::int64_t k0, std::int64_t kc, std::byte* packed);

using Dequantisation = tile::Dequantisation;

/// What becomes of a block's accumulators. The views are of exactly the block.
struct Epilogue {
  Matrix c;
  /// s8: the factors of B's columns (of all, from column 0) and one scale per row of the block, or
  /// null. Float accumulators are rounded to c's type.
  const Dequantisation* factors = nullptr;
  const float* row_scales = nullptr;
  std::optional<Matrix> sums = std::nullopt;  ///< s8: the accumulators themselves, with the bias
};

/// Steps [k0, k0 + kc) of the product of a block: `rows` packed rows by columns
/// [col0, col0 + cols). col0 is a multiple of nr, cols ≤ nc.
struct Steps {
  std::int64_t rows = 0;
  std::int64_t k0 = 0, kc = 0;
  std::int64_t col0 = 0, cols = 0;
  /// The rows as pack_a() takes them, or null: the multiply then fetches their next K-block into
  /// cache on the side, so that the next pack_a() does not wait for memory. Leave it out for rows
  /// that have not arrived.
  const std::byte* const* rows_ahead = nullptr;
};

/// accumulators (+)= packed A × B[steps]. k0 = 0 starts them; with the last step of K each tile
/// goes through `epilogue` while it is in L1. Call it with ascending k0.
void multiply(const PackedB& b, const std::byte* packed_a, const Steps& steps,
              std::byte* accumulators, const Epilogue& epilogue);

}  // namespace tandem::block
