// SPDX-License-Identifier: Apache-2.0
//
// What checks a result: reproducible inputs, a reference multiply that follows the numerics
// contract on a path of its own (plain loops over unpacked matrices, no table, no packing), and a
// comparison of bits. Thread-safe. Errors: kInvalidArgument with the argument that is wrong (null
// data, stride, type, shape, layout, lengths of lists, an output that overlaps an input, threads
// outside 1..1024), kOutOfMemory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tandem/allgather_gemm_dequant.h"
#include "tandem/export.h"
#include "tandem/matrix.h"
#include "tandem/status.h"

namespace tandem {

/// Fills with pseudo-random values: reals in [-1, 1) rounded to a float type, or all of -128..127
/// for s8. Element (i, j) depends only on `seed`, `row0 + i` and j: any part of a matrix can be
/// made anywhere. Leaves s32 matrices alone, and views that no operator would take (null data).
TANDEM_API void fill_random(Matrix m, std::uint64_t seed, std::int64_t row0 = 0);

/// C = A·B by the contract: f32 accumulation in K-blocks, rounded once to C's type. A is M×K, B as
/// `layout` says, C M×N. `threads` share the rows. Bit-equal to the operators.
TANDEM_API Status reference_gemm(ConstMatrix a, ConstMatrix b, BLayout layout, Matrix c,
                                 int threads = 1);

/// An s8 problem for the integer oracle. Spans as in PackOptions, Dequantisation and
/// AllGatherGemmDequantCall; `row_scale` has one entry per row of A, or none.
struct DequantReference {
  ConstMatrix a;  ///< M × K, s8
  ConstMatrix b;  ///< s8, as `layout` says
  BLayout layout = BLayout::kn;
  std::span<const std::int32_t> bias = {};
  Dequantisation dequantisation = {};  ///< `scale` and `requantise` where C's type needs them
  std::span<const float> row_scale = {};
};

/// C = dequantise(A·B + bias) from s64 sums, by the contract. C is f16, bf16, f32, s32 or s8.
TANDEM_API Status reference_gemm_dequant(const DequantReference& problem, Matrix c,
                                         int threads = 1);

/// The last step alone: C = dequantise(sums), where `sums` is M × N in s32, bias included, and
/// `row_scale` has M entries, or none. C as above.
TANDEM_API Status reference_dequantise(ConstMatrix sums, const Dequantisation& dequantisation,
                                       std::span<const float> row_scale, Matrix c, int threads = 1);

/// Rows of floats to s8 and a scale each, as AllGatherGemmDequant quantises on the way.
TANDEM_API Status reference_quantise(ConstMatrix a, Matrix q, std::span<float> row_scale);

struct TANDEM_API Comparison {
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
[[nodiscard]] TANDEM_API Result<Comparison> compare(ConstMatrix got, ConstMatrix expected);

}  // namespace tandem
