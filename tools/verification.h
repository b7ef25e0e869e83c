// SPDX-License-Identifier: Apache-2.0
//
// Compares a rank's C with what it must be, bit for bit and block by block, so that neither golden
// file nor reference result is ever in memory as a whole. run.cc and check.cc call it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "job.h"
#include "matrix_memory.h"
#include "operators.h"
#include "tandem/reference.h"

namespace tandem::tool {

struct Verification {
  Comparison comparison;
  std::string against;  ///< the file's name, or "the reference"
};

[[nodiscard]] Path input_path(const Job& job, int rank, const std::string& name);
[[nodiscard]] Path golden_path(const Job& job);
[[nodiscard]] Path output_path(const Job& job, int rank);

/// Errors: kInvalidArgument (missing, wrong size).
[[nodiscard]] Result<MatrixReader> open_input(const Job& job, int rank, const Input& input);

/// "1024 x 2048 f16": what the size of a file follows from.
[[nodiscard]] std::string shape_text(std::int64_t rows, std::int64_t cols, DType type);

/// Whether the data folder has a golden file to compare with. Errors: kInvalidArgument, its size.
[[nodiscard]] Result<bool> has_golden(const Job& job);

/// Compares with the golden file where there is one, else with the operator's reference over all
/// ranks' rows, from the files or from the seed. `inputs` are those of one rank.
[[nodiscard]] Result<Verification> verify(const Job& job, const MatrixMemory& c,
                                          const std::vector<Matrix>& inputs,
                                          const std::function<void(double)>& progress);

/// Adds the comparison of the rows from `row0` on.
void accumulate(Comparison& total, const Comparison& block, std::int64_t row0);

}  // namespace tandem::tool
