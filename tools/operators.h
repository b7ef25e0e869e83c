// SPDX-License-Identifier: Apache-2.0
//
// The operators that gen, run and bench know, one table row each. A row says what the operator's
// inputs are and how the library is called for it; files, ranks, verification and reports are the
// same for all. A new operator is a new row: start at allgather_gemm.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "job.h"
#include "matrix_memory.h"
#include "tandem/measure.h"
#include "tandem/world.h"

namespace tandem::tool {

/// One input matrix of one rank; in files it is pe_<rank>_<name>.bin.
struct Input {
  std::string name;
  DType type = DType::f16;
  std::int64_t rows = 0, cols = 0;
  std::uint64_t seed = 0;
  /// Belongs to the rank's rows of A, as A itself does; otherwise the same on every rank.
  bool sharded = false;
  std::int64_t row0 = 0;  ///< of a sharded input: the global number of its first row
  std::function<void(Matrix m, std::uint64_t seed, std::int64_t row0)> fill;
};

/// What a prepared operator did with the options.
struct Prepared {
  std::string kernel;
  std::int64_t chunks_per_source = 0, tile_m = 0, tile_k = 0;
};

/// A prepared operator on one rank, with its inputs bound.
class Runner {
 public:
  virtual ~Runner() = default;
  /// Collective. Receives the whole of C.
  virtual Status run(const Matrix& c) = 0;
  [[nodiscard]] virtual Prepared prepared() const = 0;
};

struct Operator {
  std::string_view name;   ///< on the command line and in JSON
  std::string_view title;  ///< in reports
  std::string_view summary;
  std::vector<DType> a_types, c_types;  ///< the first is the default

  /// The inputs of a rank, in an order that the two below keep to. A sharded one has as many rows
  /// as the rank's shard.
  std::vector<Input> (*inputs)(const Job& job, int rank);
  /// Collective. Binds this rank's inputs.
  Result<std::unique_ptr<Runner>> (*prepare)(const World& world, const Job& job,
                                             const std::vector<Matrix>& inputs);
  /// Some rows of C: of the sharded inputs, `inputs` has just those rows.
  Status (*reference)(const Job& job, const std::vector<Matrix>& inputs, Matrix c, int threads);
  /// Collective.
  Result<Measurement> (*measure)(const World& world, const Job& job,
                                 std::function<void(double)> progress);
};

[[nodiscard]] const std::vector<const Operator*>& operators();

/// What every row takes from a job in the same way.
[[nodiscard]] StreamOptions options_of(const Job& job);
[[nodiscard]] MeasureSpec measure_spec_of(const Job& job);

extern const Operator kAllGatherGemm, kAllGatherGemmDequant;

}  // namespace tandem::tool
