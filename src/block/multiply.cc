// SPDX-License-Identifier: Apache-2.0
//
// The blocked multiply: which panels and tiles there are, where they lie and in which order the
// micro-kernel visits them. Start reading at multiply().
#include "block/multiply.h"

#include <algorithm>

namespace tandem::block {
namespace {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::size_t a_panel_bytes(const tile::Kernel& kernel) {
  return static_cast<std::size_t>(kernel.mr * tile::kKc) * kernel.a_bytes;
}

/// Rows of a block dealt evenly over as few panels as hold them: 32 rows and mr = 12 give 11, 11
/// and 10, never 12, 12 and 8. A micro-kernel with few rows has too few independent chains.
class RowPanels {
 public:
  RowPanels(std::int64_t rows, int mr)
      : count_(ceil_div(rows, mr)),
        base_(count_ ? rows / count_ : 0),
        extra_(rows - base_ * count_) {}
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] int rows(std::int64_t panel) const {
    return static_cast<int>(base_ + (panel < extra_ ? 1 : 0));
  }
  [[nodiscard]] std::int64_t row0(std::int64_t panel) const {
    return panel * base_ + std::min(panel, extra_);
  }

 private:
  std::int64_t count_, base_, extra_;
};

/// What the tiles of one block::multiply() fetch on the side. B's panels come from L3 or memory,
/// and the hardware prefetchers alone hide that too late. So while one panel is multiplied, its
/// tiles fetch the next one, in equal shares: during the first tile alone, all of it would be more
/// than memory can deliver. Every other tile fetches a row of A's next K-block instead. Together
/// 0.96 instead of 0.92 of the FMA ceiling for f16, 0.92 instead of 0.84 for f32 (288 × 2048 ×
/// 1024, Zen 4, both targets).
class Lookahead {
 public:
  Lookahead(const PackedB& b, std::int64_t rows, std::int64_t tiles, std::int64_t k0,
            std::int64_t kc, const std::byte* const* rows_ahead)
      : rows_(rows),
        kc_(kc),
        single_(tiles == 1),
        last_(k0 + kc >= b.k),
        a_step_(static_cast<std::int64_t>(size_of(b.kernel->type))),
        b_step_(ceil_div(b.kernel->nr * static_cast<std::int64_t>(b.kernel->b_bytes),
                         ceil_div(tiles, 2))),
        rows_ahead_(last_ ? nullptr : rows_ahead),
        a_skip_((k0 + kc) * a_step_) {}

  [[nodiscard]] bool last_k_block() const { return last_; }

  /// For tile i of a panel. `next` is the panel that follows.
  tile::Ahead for_tile(std::int64_t i, const std::byte* panel, const std::byte* next) {
    if (i % 2 == 1 && rows_ahead_ != nullptr && row_ < rows_) {
      return {rows_ahead_[row_++] + a_skip_, a_step_};
    }
    // Up to 8 rows, B is read as fast as memory delivers it in plain order (0.19 of the ceiling for
    // one row of f16, 20 GB/s); more requests only get in the way (0.13).
    if (rows_ <= 8) return {panel, 0};
    // Nobody has fetched this panel before. 4 KiB ahead in it: f32 with 16 rows 0.76 of the
    // ceiling, against 0.60 a whole panel ahead and 0.56 without.
    if (single_) return {panel + 4096, b_step_};
    return {next + i / 2 * b_step_ * kc_, b_step_};
  }

 private:
  std::int64_t rows_, kc_;
  bool single_, last_;
  std::int64_t a_step_, b_step_;
  const std::byte* const* rows_ahead_;
  std::int64_t a_skip_;
  std::int64_t row_ = 0;
};

}  // namespace

// Packed A (mc × kKc) is read once per B panel and the accumulators (mc × nc) once per K-block, so
// both live in L2, in five eighths of it: B panels, rows to come and C pass through the rest. Each
// row costs 4 · (kKc + nc) bytes.
// - mc decides how often B is read, once per mc rows. 96 rows are 2 bytes of f16 per 192
// operations,
//   1 GB/s for one core; 144 rows measured no faster, and would coarsen what a chunk can complete.
//   96 is a multiple of every kernel's mr.
// - nc decides how often A is packed, once per nc columns, at up to half a cycle per element
//   against nc / 16 cycles of multiplying: at most a hundredth from 800 columns on.
Blocking blocking_for(const tile::Kernel& kernel, const base::CacheSizes& caches) {
  constexpr std::int64_t kRows = 96;
  constexpr std::int64_t kMaxColumns = 1024;
  const auto multiple = [](std::int64_t value, std::int64_t of) {
    return std::max<std::int64_t>(1, value / of) * of;
  };
  const auto element = static_cast<std::int64_t>(size_of(kernel.accumulator));
  const std::int64_t row_elements = caches.l2 / 8 * 5 / element / kRows;
  return {.mc = multiple(kRows, kernel.mr),
          .nc = multiple(std::min(kMaxColumns, row_elements - tile::kKc), kernel.nr)};
}

std::size_t PackedB::panel_bytes() const {
  return static_cast<std::size_t>(padded(k) * kernel->nr) * kernel->b_bytes;
}

const std::byte* PackedB::at(std::int64_t panel, std::int64_t k0) const {
  // K-blocks of all panels lie together: a multiply reads neighbouring panels of one K-block.
  const std::int64_t depth = padded(std::min(tile::kKc, k - k0));
  return data +
         static_cast<std::size_t>((k0 * panels() + depth * panel) * kernel->nr) * kernel->b_bytes;
}

void pack_b(ConstMatrix b, BLayout layout, std::int64_t begin, std::int64_t end, PackedB& out) {
  const tile::Kernel& kernel = *out.kernel;
  for (std::int64_t k0 = 0; k0 < out.k; k0 += tile::kKc) {
    const std::int64_t kc = std::min(tile::kKc, out.k - k0);
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t col0 = panel * kernel.nr;
      const int cols = static_cast<int>(std::min<std::int64_t>(kernel.nr, out.n - col0));
      const std::int64_t from = layout == BLayout::kn ? k0 * b.stride + col0 : col0 * b.stride + k0;
      kernel.pack_b(
          static_cast<const std::byte*>(b.data) + static_cast<std::size_t>(from) * kernel.b_bytes,
          b.stride, layout, kc, cols, out.data + (out.at(panel, k0) - out.data));
    }
  }
}

std::size_t packed_a_bytes(const tile::Kernel& kernel, const Blocking& blocking) {
  return static_cast<std::size_t>(ceil_div(blocking.mc, kernel.mr)) * a_panel_bytes(kernel);
}

std::size_t accumulator_bytes(const tile::Kernel& kernel, const Blocking& blocking) {
  return static_cast<std::size_t>(ceil_div(blocking.mc, kernel.mr) *
                                  ceil_div(blocking.nc, kernel.nr)) *
         kernel.tile_bytes();
}

void pack_a(const tile::Kernel& kernel, const std::byte* const* rows, std::int64_t count,
            std::int64_t k0, std::int64_t kc, std::byte* packed) {
  const RowPanels panels(count, kernel.mr);
  const auto skip = static_cast<std::size_t>(k0) * size_of(kernel.type);
  const std::byte* first[tile::kMaxMr];
  for (std::int64_t panel = 0; panel < panels.count(); ++panel) {
    for (int r = 0; r < panels.rows(panel); ++r) first[r] = rows[panels.row0(panel) + r] + skip;
    kernel.pack_a(first, panels.rows(panel), kc, packed);
    packed += a_panel_bytes(kernel);
  }
}

void multiply(const PackedB& b, const std::byte* packed_a, std::int64_t rows, std::int64_t k0,
              std::int64_t kc, std::int64_t col0, std::int64_t cols, std::byte* accumulators,
              bool first, const std::byte* const* rows_ahead) {
  const tile::Kernel& kernel = *b.kernel;
  const RowPanels row_panels(rows, kernel.mr);
  const std::int64_t panel0 = col0 / kernel.nr;
  const std::int64_t col_panels = ceil_div(cols, kernel.nr);
  Lookahead lookahead(b, rows, row_panels.count(), k0, kc, rows_ahead);
  for (std::int64_t j = 0; j < col_panels; ++j) {
    const std::byte* b_panel = b.at(panel0 + j, k0);
    const std::byte* next_panel = b_panel;
    if (j + 1 < col_panels) {
      next_panel = b.at(panel0 + j + 1, k0);
    } else if (!lookahead.last_k_block()) {
      next_panel = b.at(panel0, k0 + kc);
    }
    for (std::int64_t i = 0; i < row_panels.count(); ++i) {
      kernel.multiply(
          kc, packed_a + static_cast<std::size_t>(i) * a_panel_bytes(kernel), b_panel,
          accumulators + static_cast<std::size_t>(i * col_panels + j) * kernel.tile_bytes(),
          row_panels.rows(i), first, lookahead.for_tile(i, b_panel, next_panel));
    }
  }
}

namespace {

/// Calls each(tile, panel row, column, rows, columns) for every tile of a block, in memory order.
template <class Each>
void for_each_tile(const tile::Kernel& kernel, const std::byte* accumulators, std::int64_t rows,
                   std::int64_t cols, const Each& each) {
  const RowPanels row_panels(rows, kernel.mr);
  for (std::int64_t i = 0; i < row_panels.count(); ++i) {
    for (std::int64_t j = 0; j < cols; j += kernel.nr) {
      const int width = static_cast<int>(std::min<std::int64_t>(kernel.nr, cols - j));
      each(accumulators, row_panels.row0(i), j, row_panels.rows(i), width);
      accumulators += kernel.tile_bytes();
    }
  }
}

}  // namespace

void store(const tile::Kernel& kernel, const std::byte* accumulators, std::int64_t rows,
           std::int64_t cols, Matrix c) {
  const auto bytes = static_cast<std::int64_t>(size_of(c.type));
  for_each_tile(kernel, accumulators, rows, cols,
                [&](const std::byte* tile, std::int64_t i, std::int64_t j, int height, int width) {
                  kernel.store(tile, height, width, c.type, c.row(i) + j * bytes, c.stride * bytes);
                });
}

void dequantise(const tile::Kernel& kernel, const std::byte* accumulators, std::int64_t rows,
                std::int64_t col0, std::int64_t cols, const Dequantisation& factors,
                const float* row_scales, Matrix c) {
  const auto bytes = static_cast<std::int64_t>(size_of(c.type));
  for_each_tile(kernel, accumulators, rows, cols,
                [&](const std::byte* tile, std::int64_t i, std::int64_t j, int height, int width) {
                  kernel.dequantise(tile, height, width, factors.from(col0 + j),
                                    row_scales == nullptr ? nullptr : row_scales + i, c.type,
                                    c.row(i) + j * bytes, c.stride * bytes);
                });
}

}  // namespace tandem::block
