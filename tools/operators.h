// SPDX-License-Identifier: Apache-2.0
//
// The operators that gen, run and bench know, one table row each. A row says what the operator's
// inputs are and how the library is called for it; files, ranks, verification and reports are the
// same for all. A new operator is a new row: start at allgather_gemm.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job.h"
#include "matrix_memory.h"
#include "tandem/measure.h"
#include "tandem/reference.h"
#include "tandem/world.h"

namespace tandem::tool {

/// Which dimension of an input is N, and so goes by columns of C.
enum class Along { none, rows, cols };

/// One input matrix of one rank; verification.h says how its file is called.
struct Input {
  std::string name;
  std::string catccos_name;  ///< as the CATCCOS example calls it
  DType type = DType::f16;
  std::int64_t rows = 0, cols = 0;
  std::uint64_t seed = 0;
  /// Belongs to the rank's rows of A, as A itself does; otherwise the same on every rank.
  bool sharded = false;
  std::int64_t row0 = 0;  ///< of a sharded input: the global number of its first row
  Along columns = Along::none;
  std::function<void(Matrix m, std::uint64_t seed, std::int64_t row0)> fill;
};

/// What a prepared operator did with the options.
struct Prepared {
  std::string kernel;
  std::int64_t chunks_per_source = 0, tile_m = 0, tile_k = 0, window_bytes = 0;
};

struct Outputs {
  Matrix c;
  std::optional<Matrix> accumulators;  ///< where the job asks for them
};

/// Checks all elements of some rows of C without the cost of the reference.
class BlockCheck {
 public:
  virtual ~BlockCheck() = default;
  /// Collective. `rows[r]` rows of each rank's shard, stacked in rank order: of the sharded inputs,
  /// `inputs` has just those, `outputs` likewise.
  virtual Result<Comparison> check(const std::vector<Matrix>& inputs,
                                   const std::vector<std::int64_t>& rows,
                                   const Outputs& outputs) = 0;
};

/// A prepared operator on one rank, with its inputs bound, A apart.
class Runner {
 public:
  virtual ~Runner() = default;
  /// Where this rank's `rows` of A are to be written, for a job that wants them in the window.
  virtual Result<std::optional<Matrix>> place_for_a(std::int64_t rows) = 0;
  /// Collective.
  virtual Status run(const Matrix& a, const Outputs& outputs) = 0;
  [[nodiscard]] virtual Prepared prepared() const = 0;
  /// Collective. For blocks of up to `most_rows` of each shard; null where there is no such check.
  virtual Result<std::unique_ptr<BlockCheck>> block_check(std::int64_t most_rows) = 0;
};

struct Operator {
  std::string_view name;   ///< on the command line and in JSON
  std::string_view title;  ///< in reports
  std::string_view summary;
  std::vector<DType> a_types, c_types;  ///< the first is the default
  bool s8_weights = false;              ///< and s8 is what travels
  /// Operations per second and thread of the reference, and of the operator: for decisions and
  /// progress bars, from one core of a Zen 4.
  double reference_rate = 1e9, multiply_rate = 1e9;

  /// The inputs of a rank, in an order that the two below keep to. A sharded one has as many rows
  /// as the rank's shard.
  std::vector<Input> (*inputs)(const Job& job, int rank);
  /// Collective. Binds this rank's inputs but A, the first; they must stay.
  Result<std::unique_ptr<Runner>> (*prepare)(const World& world, const Job& job,
                                             const std::vector<Matrix>& inputs);
  /// Some rows of C: of the sharded inputs, `inputs` has just those rows.
  Status (*reference)(const Job& job, const std::vector<Matrix>& inputs, Matrix c, int threads);
  /// Collective.
  Result<Measurement> (*measure)(const World& world, const Job& job,
                                 std::function<void(double)> progress);
};

[[nodiscard]] const std::vector<const Operator*>& operators();

/// Ones in any type.
void fill_ones(Matrix m);

/// What every row takes from a job in the same way.
[[nodiscard]] MeasureSpec measure_spec_of(const Job& job);

extern const Operator kAllGatherGemm, kAllGatherGemmDequant;

}  // namespace tandem::tool
