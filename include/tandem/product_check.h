// SPDX-License-Identifier: Apache-2.0
//
// ProductCheck: whether the s32 sums of an s8 product are right, all of them, for a few operations
// per element instead of the product's K. For results that are too large for the reference.
// Source: R. Freivalds, "Probabilistic machines can use less running time", 1977.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tandem/export.h"
#include "tandem/matrix.h"
#include "tandem/status.h"

namespace tandem {

/// Draws a vector x of N numbers of 64 bits and keeps y = B·x and bias·x, both modulo 2^64. Sums S
/// are right only if S·x = A·y + bias·x (mod 2^64) for every row: integers, so exactly. A row with
/// a wrong element passes with a probability of at most 2^-33: the error of an s32 is a multiple of
/// 2^31 at most, so of 2^64 values of that element's x at most 2^31 hide it. A wrong result passes
/// only if each of its wrong rows does. Immutable; safe to share between threads.
class TANDEM_API ProductCheck {
 public:
  /// `b` is s8 as `layout` says; `bias` has N entries, or none. Errors: kInvalidArgument.
  static Result<ProductCheck> create(ConstMatrix b, BLayout layout,
                                     std::span<const std::int32_t> bias, std::uint64_t seed);

  /// The first row of `sums` (M × N, s32, bias included) that is wrong for the rows `a` (M × K,
  /// s8); -1 when none is. Errors: kInvalidArgument.
  [[nodiscard]] Result<std::int64_t> first_wrong_row(ConstMatrix a, ConstMatrix sums) const;

 private:
  ProductCheck() = default;
  std::vector<std::uint64_t> x_, y_;
  std::uint64_t bias_ = 0;
};

}  // namespace tandem
