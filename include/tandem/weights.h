// SPDX-License-Identifier: Apache-2.0
//
// PackedWeights: B, rearranged once into the order in which the micro-kernel reads it. Packing
// costs one pass over B; every later multiply streams it. Weights keep their own type (f16 stays
// two bytes per element) and are widened in registers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tandem/export.h"
#include "tandem/matrix.h"
#include "tandem/status.h"

namespace tandem {

namespace block {
struct PackedB;
}

struct PackOptions {
  BLayout layout = BLayout::kn;
  /// Kernel target ("auto", or one of those system.h lists). "auto" takes the fastest that this
  /// CPU runs, or the one that the environment variable TANDEM_KERNEL names.
  std::string kernel = "auto";
  int threads = 1;  ///< threads that pack, 1..1024
  /// s8 only: N values that are added to the sums, copied. Empty means none.
  std::span<const std::int32_t> bias = {};
};

/// Immutable after creation; safe to share between operators, ranks and threads; copies share.
class TANDEM_API PackedWeights {
 public:
  /// Packs `b`: K×N for BLayout::kn, N×K for BLayout::nk, type f16, bf16, f32 or s8. The source may
  /// be freed afterwards. Errors: kInvalidArgument (K or N below 1, null data, stride below
  /// cols, type; s8: a column whose sums could leave s32), kUnsupported (kernel this CPU cannot
  /// run), kOutOfMemory.
  static Result<PackedWeights> pack(ConstMatrix b, PackOptions options = {});

  [[nodiscard]] std::int64_t k() const;
  [[nodiscard]] std::int64_t n() const;
  [[nodiscard]] DType type() const;
  [[nodiscard]] std::string kernel() const;  ///< target name of the kernel it was packed for
  [[nodiscard]] std::int64_t bytes() const;  ///< memory that the packed form takes

  [[nodiscard]] const block::PackedB& impl() const { return *impl_; }

 private:
  explicit PackedWeights(std::shared_ptr<const block::PackedB> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const block::PackedB> impl_;
};

}  // namespace tandem
