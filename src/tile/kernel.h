// SPDX-License-Identifier: Apache-2.0
//
// Kernel: one row of the kernel table, all that the blocked multiply needs from one instruction
// set for one operand type. The table (kernel_table.cc) feeds selection, tests and benches, so no
// kernel exists untested.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/cpu_features.h"
#include "tandem/matrix.h"
#include "tandem/status.h"

namespace tandem::tile {

/// Packed A panel: for each k, mr values of the multiply's A element (f32 for float operands),
/// rows beyond the block zero. Packed B panel: for each k, nr values in B's own type, columns
/// beyond N zero. Accumulator tile: mr × nr of f32 (s32 for s8), row-major, 64-byte aligned.
struct Kernel {
  std::string_view target;  ///< "avx512", "avx2", "neon", "scalar"
  DType type;               ///< operand type: f16, bf16, f32 (s8 later)
  DType accumulator;        ///< f32 (s32 for s8)
  int mr, nr;               ///< rows and columns of the register block
  std::size_t a_bytes;      ///< bytes of one element of packed A
  std::size_t b_bytes;      ///< bytes of one element of packed B

  /// True when the CPU can run it; when false *why names the missing feature.
  bool (*runs_on)(const base::CpuFeatures& cpu, std::string* why);

  /// Packs up to mr rows, given by pointers to their first element of this K-block, into one panel.
  void (*pack_a)(const std::byte* const* rows, int row_count, std::int64_t kc, std::byte* panel);

  /// Packs one panel of up to nr columns of B, kc deep, from either layout. `b` points at the
  /// first element of the K-block and panel; stride in elements.
  void (*pack_b)(const std::byte* b, std::int64_t stride, BLayout layout, std::int64_t kc, int cols,
                 std::byte* panel);

  /// tile = (first ? 0-rooted chain : tile + chain) over kc steps, per the contract. kc in 1..kKc.
  void (*multiply)(std::int64_t kc, const std::byte* a_panel, const std::byte* b_panel,
                   std::byte* tile, bool first);

  /// Rounds `count` f32 accumulators to `type` (f32, f16, bf16): round-to-nearest-even.
  void (*store)(const float* from, std::int64_t count, DType type, std::byte* to);
};

/// All kernels, best target first, the scalar reference last.
[[nodiscard]] std::span<const Kernel> kernel_table();

/// The kernel for `type` that `target` names, or the first that runs for "auto".
/// Errors: kInvalidArgument (unknown name; lists the known), kUnsupported (this CPU cannot).
[[nodiscard]] Result<const Kernel*> select_kernel(DType type, std::string_view target,
                                                  const base::CpuFeatures& cpu);

}  // namespace tandem::tile
