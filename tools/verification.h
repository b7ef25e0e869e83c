// SPDX-License-Identifier: Apache-2.0
//
// Compares a rank's C with what it must be, bit for bit and block by block, so that neither golden
// file nor reference result is ever in memory as a whole. verification.cc compares all of it,
// sampled_verification.cc what can be told of large results. run.cc and check.cc call it.
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
  bool whole = true;
  /// Of a sample: whole rows and columns of C that were compared with the reference.
  std::int64_t rows = 0, columns = 0;
  bool every_element = true;  ///< all were checked, one way or the other
  std::int64_t infinite = 0;  ///< elements of C that are infinite
};

/// What a verification works on. `inputs` are this rank's; of A only the type and shape count.
struct Verified {
  const Job& job;
  const std::vector<Matrix>& inputs;
  const Outputs& outputs;
  std::function<void(double)> progress;
};

/// The file of an input; `rank` is a number, or a word for people.
[[nodiscard]] std::string input_file_name(const Job& job, const std::string& rank,
                                          const Input& input);
[[nodiscard]] Path input_path(const Job& job, int rank, const Input& input);
[[nodiscard]] Path golden_path(const Job& job);
[[nodiscard]] Path output_path(const Job& job, int rank);
[[nodiscard]] Path accumulators_path(const Job& job, int rank);

/// Errors: kInvalidArgument (missing, wrong size).
[[nodiscard]] Result<MatrixReader> open_input(const Job& job, int rank, const Input& input);

/// "1024 x 2048 f16": what the size of a file follows from.
[[nodiscard]] std::string shape_text(std::int64_t rows, std::int64_t cols, DType type);

/// Whether the data folder has a golden file to compare with. Errors: kInvalidArgument, its size.
[[nodiscard]] Result<bool> has_golden(const Job& job);

/// Compares with the golden file where there is one, else with the operator's reference over all
/// ranks' rows, from the files or from the seed.
[[nodiscard]] Result<Verification> verify_whole(const Verified& what);

/// Collective. Rows and columns drawn at random, differently on every rank, against the reference,
/// and all elements by the operator's block check where it has one.
[[nodiscard]] Result<Verification> verify_sample(const World& world, const Verified& what,
                                                 Runner& runner);

/// Adds the comparison of the rows from `row0` on.
void accumulate(Comparison& total, const Comparison& block, std::int64_t row0);

/// Elements that are infinite.
[[nodiscard]] std::int64_t count_infinite(const ConstMatrix& m);

}  // namespace tandem::tool
