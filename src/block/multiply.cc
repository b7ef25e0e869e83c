// SPDX-License-Identifier: Apache-2.0
//
// The blocked multiply: which panels and tiles there are, where they lie and in which order the
// micro-kernel visits them. Start reading at multiply().
#include "block/multiply.h"

#include <algorithm>

#include "base/float_environment.h"

namespace tandem::block {
namespace {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Steps of k that all row panels take before any goes on: so many that the run of B stays in L1,
/// where only the first of them waits for it. Half of 32 KiB, beside the A panel.
std::int64_t run_steps(const PackedB& b) {
  constexpr std::int64_t kBytes = 16 << 10;
  return std::max(kBytes / b.step_bytes() / tile::kKc, std::int64_t{1}) * tile::kKc;
}

std::size_t a_panel_bytes(const tile::Kernel& kernel) {
  return static_cast<std::size_t>(kernel.mr * kernel.kc) * kernel.a_bytes;
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

/// What the tiles of one block::multiply() fetch on the side. B comes from L3 or memory, and the
/// hardware prefetchers alone hide that too late. So while a run of B is multiplied, its tiles
/// fetch the next one, in equal shares: during the first tile alone, all of it would be more than
/// memory can deliver. With many rows every other tile fetches a row of A's next K-block instead.
/// Together 0.96 instead of 0.92 of the FMA ceiling for f16, 0.92 instead of 0.84 for f32 (288 ×
/// 2048 × 1024, Zen 4, both targets).
class Lookahead {
 public:
  Lookahead(const PackedB& b, std::int64_t rows, std::int64_t tiles,
            const std::byte* const* rows_ahead, std::int64_t next_k)
      : rows_(rows),
        tiles_(tiles),
        few_(2 * b.kernel->steps_at_once() * static_cast<std::int64_t>(b.kernel->b_bytes)),
        // With fewer rows B is what counts: 0.93 instead of 0.76 of the ceiling for s8 with 24.
        rows_ahead_(rows <= 48 ? nullptr : rows_ahead),
        a_step_(static_cast<std::int64_t>(size_of(b.kernel->type))),
        b_step_(ceil_div(b.step_bytes(), rows_ahead_ == nullptr ? tiles : ceil_div(tiles, 2))),
        a_skip_(next_k * a_step_) {}

  /// For tile i of a run of `steps`. `next` is the run that follows.
  tile::Ahead for_tile(std::int64_t i, std::int64_t steps, const std::byte* run,
                       const std::byte* next) {
    // So few rows need B faster than memory delivers it. It comes fastest in plain order (0.19 of
    // the ceiling for one row of f16, 20 GB/s); more requests only get in the way (0.13).
    if (rows_ <= few_) return {run, 0};
    // Nobody has fetched this run before. 4 KiB ahead in it: f32 with 16 rows 0.76 of the ceiling,
    // against 0.60 a whole panel ahead and 0.56 without.
    if (tiles_ == 1) return {run + 4096, b_step_};
    if (rows_ahead_ == nullptr) return {next + i * b_step_ * steps, b_step_};
    if (i % 2 == 0) return {next + i / 2 * b_step_ * steps, b_step_};
    if (row_ == rows_) return {run, 0};
    return {rows_ahead_[row_++] + a_skip_, a_step_};
  }

 private:
  std::int64_t rows_, tiles_, few_;
  const std::byte* const* rows_ahead_;
  std::int64_t a_step_, b_step_;
  std::int64_t a_skip_;
  std::int64_t row_ = 0;
};

}  // namespace

// Packed A (mc × kc) is read once per B panel and the accumulators (mc × nc) once per K-block, so
// both live in L2, in five eighths of it: B panels, rows to come and C pass through the rest. Each
// row costs kc elements of packed A and nc accumulators.
// - mc decides how often B is read, once per mc rows. 96 rows are 2 bytes of f16 per 192
//   operations, 1 GB/s for one core; 144 rows measured no faster, and would coarsen what a chunk
//   can complete. 96 is a multiple of every kernel's mr.
// - nc decides how often A is packed, once per nc columns, at up to half a cycle per element
//   against nc / 16 cycles of multiplying: at most a hundredth from 800 columns on. Where L2 is too
//   small for that, a few hundred columns and some misses are still better than packing again.
Blocking blocking_for(const tile::Kernel& kernel, const base::CacheSizes& caches) {
  constexpr std::int64_t kRows = 96;
  constexpr std::int64_t kMinColumns = 256, kMaxColumns = 1024;
  const auto multiple = [](std::int64_t value, std::int64_t of) {
    return std::max<std::int64_t>(1, value / of) * of;
  };
  const std::int64_t sums_bytes =
      caches.l2 / 8 * 5 / kRows - kernel.kc * static_cast<std::int64_t>(kernel.a_bytes);
  const std::int64_t columns = sums_bytes / static_cast<std::int64_t>(size_of(kernel.accumulator));
  return {.mc = multiple(kRows, kernel.mr),
          .nc = multiple(std::clamp(columns, kMinColumns, kMaxColumns), kernel.nr)};
}

std::size_t PackedB::panel_bytes() const {
  return static_cast<std::size_t>(kernel->padded(k) * kernel->nr) * kernel->b_bytes;
}

const std::byte* PackedB::at(std::int64_t panel, std::int64_t step) const {
  // K-blocks of all panels lie together: a multiply reads neighbouring panels of one K-block.
  const std::int64_t block = step / kernel->kc * kernel->kc;
  const std::int64_t depth = kernel->padded(std::min(kernel->kc, k - block));
  return data + (block * panels() + depth * panel + (step - block)) * step_bytes();
}

void pack_b(ConstMatrix b, BLayout layout, std::int64_t begin, std::int64_t end, PackedB& out) {
  const tile::Kernel& kernel = *out.kernel;
  const auto pack = [&](std::int64_t panel, std::int64_t k0, std::int64_t steps) {
    const std::int64_t col0 = panel * kernel.nr;
    const int cols = static_cast<int>(std::min<std::int64_t>(kernel.nr, out.n - col0));
    const std::int64_t from = layout == BLayout::kn ? k0 * b.stride + col0 : col0 * b.stride + k0;
    kernel.pack_b(
        static_cast<const std::byte*>(b.data) + static_cast<std::size_t>(from) * kernel.b_bytes,
        b.stride, layout, steps, cols, out.data + (out.at(panel, k0) - out.data));
  };
  // In the order in which B lies. Rows of K×N in bundles: a panel takes part of a line of each, and
  // the rest has to be in cache still when the next panel comes for it.
  constexpr std::int64_t kBundle = tile::kKc;
  if (layout == BLayout::kn) {
    for (std::int64_t k0 = 0; k0 < out.k; k0 += kBundle) {
      const std::int64_t steps = std::min(kBundle, out.k - k0);
      for (std::int64_t panel = begin; panel < end; ++panel) pack(panel, k0, steps);
    }
  } else {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      for (std::int64_t k0 = 0; k0 < out.k; k0 += kernel.kc) {
        pack(panel, k0, std::min(kernel.kc, out.k - k0));
      }
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

namespace {

/// Turns tiles into output.
class Finish {
 public:
  Finish(const tile::Kernel& kernel, const Epilogue& epilogue, std::int64_t col0)
      : kernel_(kernel), epilogue_(epilogue), col0_(col0) {}

  /// A tile at row i and column j of the block.
  void operator()(const std::byte* tile, std::int64_t i, int height, std::int64_t j,
                  int width) const {
    const Matrix& c = epilogue_.c;
    if (epilogue_.factors == nullptr) {
      kernel_.store(tile, height, width, c.type, at(c, i, j), pitch(c));
      return;
    }
    const Dequantisation factors = epilogue_.factors->from(col0_ + j);
    const float* const scales =
        epilogue_.row_scales == nullptr ? nullptr : epilogue_.row_scales + i;
    kernel_.dequantise(tile, height, width, factors, scales, c.type, at(c, i, j), pitch(c));
    if (!epilogue_.sums) return;
    const Matrix& sums = *epilogue_.sums;
    kernel_.dequantise(tile, height, width, factors, nullptr, sums.type, at(sums, i, j),
                       pitch(sums));
  }

 private:
  static std::byte* at(const Matrix& m, std::int64_t i, std::int64_t j) {
    return m.row(i) + j * static_cast<std::int64_t>(size_of(m.type));
  }
  static std::int64_t pitch(const Matrix& m) {
    return m.stride * static_cast<std::int64_t>(size_of(m.type));
  }

  const tile::Kernel& kernel_;
  const Epilogue& epilogue_;
  std::int64_t col0_;
};

}  // namespace

void multiply(const PackedB& b, const std::byte* packed_a, const Steps& s, std::byte* accumulators,
              const Epilogue& epilogue) {
  const tile::Kernel& kernel = *b.kernel;
  const base::SubnormalsFlushed mode(kernel.flushes);
  const RowPanels row_panels(s.rows, kernel.mr);
  const std::int64_t panel0 = s.col0 / kernel.nr;
  const std::int64_t col_panels = ceil_div(s.cols, kernel.nr);
  const bool last_steps = s.k0 + s.kc >= b.k;
  Lookahead lookahead(b, s.rows, row_panels.count(), last_steps ? nullptr : s.rows_ahead,
                      s.k0 + s.kc);
  const Finish finish(kernel, epilogue, s.col0);
  // A single row panel reads B once however it is cut; runs would only interrupt the stream.
  const std::int64_t longest = row_panels.count() == 1 ? s.kc : run_steps(b);
  const auto a_step = static_cast<std::int64_t>(kernel.a_bytes);
  const auto tile_bytes = static_cast<std::int64_t>(kernel.tile_bytes());
  for (std::int64_t j = 0; j < col_panels; ++j) {
    const std::byte* panel = b.at(panel0 + j, s.k0);
    const std::byte* next_panel = panel;
    if (j + 1 < col_panels) {
      next_panel = b.at(panel0 + j + 1, s.k0);
    } else if (!last_steps) {
      next_panel = b.at(panel0, s.k0 + s.kc);
    }
    const int width = static_cast<int>(std::min<std::int64_t>(kernel.nr, s.cols - j * kernel.nr));
    // When nothing is to be kept for later steps all column panels share the tiles of one, in L1.
    std::byte* const tiles =
        s.k0 == 0 && last_steps ? accumulators : accumulators + j * row_panels.count() * tile_bytes;
    for (std::int64_t k = 0; k < s.kc; k += longest) {
      const std::int64_t steps = std::min(longest, s.kc - k);
      const std::byte* run = panel + k * b.step_bytes();
      const std::byte* next = k + steps < s.kc ? run + steps * b.step_bytes() : next_panel;
      const std::byte* rows = packed_a;
      for (std::int64_t i = 0; i < row_panels.count(); ++i, rows += a_panel_bytes(kernel)) {
        const int height = row_panels.rows(i);
        std::byte* const tile = tiles + i * tile_bytes;
        kernel.multiply(steps, rows + k * height * a_step, run, tile, height, s.k0 == 0 && k == 0,
                        lookahead.for_tile(i, steps, run, next));
        if (last_steps && k + steps == s.kc) {
          finish(tile, row_panels.row0(i), height, j * kernel.nr, width);
        }
      }
    }
  }
}

}  // namespace tandem::block
