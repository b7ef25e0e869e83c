// SPDX-License-Identifier: Apache-2.0
//
// Kernel: one row of the kernel table, all that the blocked multiply needs from one instruction
// set for one operand type. The table (kernel_table.cc) feeds selection, tests and benches, so no
// kernel exists untested. Start reading at scalar_kernel.cc: every other kernel is that, faster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/cpu_features.h"
#include "tandem/matrix.h"
#include "tandem/status.h"
#include "tile/contract.h"
#include "tile/dequantise.h"

namespace tandem::tile {

/// Bound on every kernel's mr: more rows than any register file holds.
inline constexpr int kMaxMr = 64;

/// What a multiply touches ahead of use: at step k of its loop it prefetches `at + k * step`, so
/// that memory is fetched at the pace of the arithmetic and never in a burst that delays it. The
/// address need not be valid.
struct Ahead {
  const std::byte* at = nullptr;
  std::int64_t step = 0;
};

/// Consecutive k of one row in a packed A panel: a cache line of f32.
inline constexpr std::int64_t kChunk = 16;

/// Where a kernel has passed its tests so far, as far as the authors know.
enum class Proof : std::uint8_t { hardware, emulator, never_run };

/// The three shapes that kernels exchange. A panels and tiles are 64-byte aligned:
///
/// - A panel: 1..mr rows of up to kc values, widened (f32 for float operands). Cut along k into
///   chunks of kChunk; a chunk holds kChunk values of the first row, then of the second, … The
///   micro-kernel broadcasts A one value at a time, so rows need no transposition, and it walks the
///   panel from front to back, as the hardware prefetchers expect.
/// - B panel: groups of k_group steps by nr columns in B's own type, columns beyond N and steps
///   beyond kc zero. Aligned to its groups. The order within a group is the kernel's own business.
/// - Tile: mr × nr accumulators, row-major.
struct Kernel {
  std::string_view target;  ///< "avx512", "avx2", "neon", "scalar"
  DType type;               ///< operand type: f16, bf16, f32, s8
  DType accumulator;        ///< f32; of s8, s32
  int mr, nr;               ///< rows and columns of the register block
  std::size_t a_bytes;      ///< bytes of one element of packed A
  std::size_t b_bytes;      ///< bytes of one element of packed B

  Proof proof = Proof::hardware;

  /// Steps of k in a K-block, a multiple of kKc. For floats the contract says how many. Integer
  /// sums are the same in any order: an s8 kernel may have longer blocks and be called for parts of
  /// one. Its A panels then hold exactly rows × a_bytes per step, so that a part begins where it
  /// should.
  std::int64_t kc = kKc;

  /// True when the CPU can run it; when false *why names the missing features.
  bool (*runs_on)(const base::CpuFeatures& cpu, std::string* why);

  /// Packs row_count (1..mr) rows, given by pointers to their first element of this K-block, into
  /// an A panel. Row pointers need not be aligned.
  void (*pack_a)(const std::byte* const* rows, int row_count, std::int64_t kc, std::byte* panel);

  /// Packs one panel of cols (1..nr) columns of B, kc deep, from either layout. `b` points at the
  /// first element of the K-block and panel; stride in elements.
  void (*pack_b)(const std::byte* b, std::int64_t stride, BLayout layout, std::int64_t kc, int cols,
                 std::byte* panel);

  /// For the first `rows` (1..mr) rows of the tile: tile = chain when `first`, else tile + chain,
  /// where chain is the contract's fma chain from zero over kc (1..Kernel::kc) steps. Where the
  /// kernel says that it `flushes`, within base::SubnormalsFlushed.
  void (*multiply)(std::int64_t kc, const std::byte* a_panel, const std::byte* b_panel,
                   std::byte* tile, int rows, bool first, Ahead ahead);

  /// Writes the tile's first rows × cols accumulators to `to`, rounded to nearest even. `pitch` is
  /// the number of bytes from one row of `to` to the next.
  void (*store)(const std::byte* tile, int rows, int cols, DType type, std::byte* to,
                std::int64_t pitch);

  /// s8 only, in place of store: adds the bias and writes the outputs (dequantise.h). `factors` are
  /// those of the tile's first column, row_scale null or one per row.
  void (*dequantise)(const std::byte* tile, int rows, int cols, const Dequantisation& factors,
                     const float* row_scale, DType type, std::byte* to,
                     std::int64_t pitch) = nullptr;

  /// s8 only: quantise_row() of dequantise.h.
  float (*quantise)(DType type, const std::byte* from, std::int64_t count,
                    std::int8_t* to) = nullptr;

  /// What pack_a adds to every s8, so that an instruction that wants unsigned bytes can be used.
  /// The sums are then too large by a_offset times the column's sum of B, which the bias takes
  /// back.
  std::int32_t a_offset = 0;

  /// Steps of k that lie together in a B group; a K-block is padded to whole groups.
  int k_group = 1;

  /// Whether the bf16 contract's flushing of subnormals is left to the mode of the thread.
  bool flushes = false;

  /// Steps of k as B is packed: whole groups. kc is a multiple of the group.
  [[nodiscard]] std::int64_t padded(std::int64_t steps) const {
    return (steps + k_group - 1) / k_group * k_group;
  }
  /// Steps of k that one instruction of the multiply takes; FMAs, for which A is widened, take one.
  [[nodiscard]] int steps_at_once() const { return a_bytes == sizeof(float) ? 1 : k_group; }

  [[nodiscard]] std::size_t tile_bytes() const {
    return static_cast<std::size_t>(mr * nr) * size_of(accumulator);
  }
};

/// All kernels that this build has, best target first, the scalar reference last.
[[nodiscard]] std::span<const Kernel> kernel_table();

/// Ok for a kernel that may be used; self_check_once() (self_check.h) is one.
using Trust = Status (*)(const Kernel&);

/// The kernel for `type` that `target` names, or the first that runs for "auto" and that `trust`,
/// where given, finds right. Errors: kInvalidArgument (unknown name; lists the known), kUnsupported
/// (this CPU cannot, no kernel takes the type, or `trust` finds it wrong).
[[nodiscard]] Result<const Kernel*> select_kernel(DType type, std::string_view target,
                                                  const base::CpuFeatures& cpu,
                                                  Trust trust = nullptr);

}  // namespace tandem::tile
