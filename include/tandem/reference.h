// SPDX-License-Identifier: Apache-2.0
//
// What checks a result: reproducible inputs, a reference multiply that follows the numerics
// contract on a path of its own (plain loops over unpacked matrices, no table, no packing), and a
// comparison of bits.
#pragma once

#include <cstdint>
#include <string>

#include "tandem/matrix.h"
#include "tandem/status.h"

namespace tandem {

/// Fills with pseudo-random reals in [-1, 1), rounded to the type. Element (i, j) depends only on
/// `seed`, `row0 + i` and j: any part of a matrix can be made anywhere. Float types only.
void fill_random(Matrix m, std::uint64_t seed, std::int64_t row0 = 0);

/// C = A·B by the contract: f32 accumulation in K-blocks, rounded once to C's type. A is M×K, B as
/// `layout` says, C M×N. `threads` ≥ 1 share the rows. Bit-equal to the operators.
Status reference_gemm(ConstMatrix a, ConstMatrix b, BLayout layout, Matrix c, int threads = 1);

struct Comparison {
  std::int64_t elements = 0;
  std::int64_t different = 0;  ///< elements whose bits differ; any NaN equals any NaN
  std::int64_t first_row = -1, first_col = -1;
  double first_got = 0, first_expected = 0;
  double max_abs_difference = 0;  ///< over finite pairs
  [[nodiscard]] bool equal() const { return different == 0; }
  /// "1 of 6000 elements differs, the first at (3, 17): got 0.5, expected 0.25"
  [[nodiscard]] std::string text() const;
};

/// Compares two matrices of the same type and shape, bit for bit.
[[nodiscard]] Result<Comparison> compare(ConstMatrix got, ConstMatrix expected);

}  // namespace tandem
