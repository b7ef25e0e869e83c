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

}  // namespace

// Packed A (mc × kKc) is read once per B panel and the accumulators (mc × nc) once per K-block, so
// both live in L2; B streams past them, one panel at a time in L1. Each row costs 4 · (kKc + nc)
// bytes. nc comes first: every column group packs A again, which costs about a cycle per element
// against nc / 16 cycles of multiplying. mc decides how often B is read, once per mc rows: at 48
// rows that is 2 bytes per 96 operations, some 2 GB/s for one core, which memory can give.
Blocking blocking_for(const tile::Kernel& kernel, const base::CacheSizes& caches) {
  constexpr std::int64_t kMaxColumns = 1024;
  constexpr std::int64_t kMinRows = 48;
  // More rows would make no measurable difference, and coarsen what a chunk can complete.
  constexpr std::int64_t kMaxRows = 144;
  const std::int64_t element = static_cast<std::int64_t>(size_of(kernel.accumulator));
  // A quarter of L2 is left to B panels passing through and to C.
  const std::int64_t budget = caches.l2 / 4 * 3 / element;
  const auto multiple = [](std::int64_t value, std::int64_t of) {
    return std::max<std::int64_t>(1, value / of) * of;
  };
  const std::int64_t nc = multiple(std::min(kMaxColumns, budget / kMinRows - tile::kKc), kernel.nr);
  const std::int64_t mc = multiple(std::min(kMaxRows, budget / (tile::kKc + nc)), kernel.mr);
  return {.mc = mc, .nc = nc};
}

std::size_t PackedB::panel_bytes() const {
  return static_cast<std::size_t>(k * kernel->nr) * kernel->b_bytes;
}

const std::byte* PackedB::at(std::int64_t panel, std::int64_t k0) const {
  // K-blocks of all panels lie together: a multiply reads neighbouring panels of one K-block.
  const std::int64_t depth = std::min(tile::kKc, k - k0);
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
  const std::byte* first[64];
  for (std::int64_t panel = 0; panel < panels.count(); ++panel) {
    for (int r = 0; r < panels.rows(panel); ++r) first[r] = rows[panels.row0(panel) + r] + skip;
    kernel.pack_a(first, panels.rows(panel), kc, packed);
    packed += a_panel_bytes(kernel);
  }
}

void multiply(const PackedB& b, const std::byte* packed_a, std::int64_t rows, std::int64_t k0,
              std::int64_t kc, std::int64_t col0, std::int64_t cols, std::byte* accumulators,
              bool first) {
  const tile::Kernel& kernel = *b.kernel;
  const RowPanels row_panels(rows, kernel.mr);
  const std::int64_t panel0 = col0 / kernel.nr;
  const std::int64_t col_panels = ceil_div(cols, kernel.nr);
  for (std::int64_t j = 0; j < col_panels; ++j) {
    const std::byte* b_panel = b.at(panel0 + j, k0);
    for (std::int64_t i = 0; i < row_panels.count(); ++i) {
      kernel.multiply(
          kc, packed_a + static_cast<std::size_t>(i) * a_panel_bytes(kernel), b_panel,
          accumulators + static_cast<std::size_t>(i * col_panels + j) * kernel.tile_bytes(),
          row_panels.rows(i), first);
    }
  }
}

void store(const tile::Kernel& kernel, const std::byte* accumulators, std::int64_t rows,
           std::int64_t cols, Matrix c) {
  const RowPanels row_panels(rows, kernel.mr);
  const auto bytes = static_cast<std::int64_t>(size_of(c.type));
  const std::byte* tile = accumulators;
  for (std::int64_t i = 0; i < row_panels.count(); ++i) {
    for (std::int64_t j = 0; j < cols; j += kernel.nr) {
      const int width = static_cast<int>(std::min<std::int64_t>(kernel.nr, cols - j));
      kernel.store(tile, row_panels.rows(i), width, c.type, c.row(row_panels.row0(i)) + j * bytes,
                   c.stride * bytes);
      tile += kernel.tile_bytes();
    }
  }
}

}  // namespace tandem::block
