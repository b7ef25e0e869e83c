// SPDX-License-Identifier: Apache-2.0
//
// What the public operators share in front of a Pipeline: agreement at creation, the checks of a
// call's rows, its A and its gathered A. An operator adds what its outputs need.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "op/pipeline.h"
#include "tandem/weights.h"

namespace tandem::op {

class OperatorCore {
 public:
  /// Collective. `a_types` are the types that run() takes for A.
  static Result<std::unique_ptr<OperatorCore>> create(const World& world, PackedWeights weights,
                                                      const Travelling& what, bool quantises,
                                                      StreamOptions options);

  /// The rows of every rank: `given`, or a.rows for each when it is empty.
  [[nodiscard]] std::span<const std::int64_t> rows_of(std::span<const std::int64_t> given,
                                                      const ConstMatrix& a);
  [[nodiscard]] Status check_input(const ConstMatrix& a, std::span<const std::int64_t> rows) const;
  /// An output of M × N, disjoint from A and from the outputs checked before it.
  [[nodiscard]] Status check_output(std::string_view what, const Matrix& m,
                                    std::span<const DType> types, std::int64_t cols,
                                    std::span<const std::int64_t> rows, const ConstMatrix& a) const;

  Result<Matrix> acquire_input(std::int64_t rows);

  [[nodiscard]] Pipeline& pipeline() { return *pipeline_; }
  [[nodiscard]] const Pipeline& pipeline() const { return *pipeline_; }
  [[nodiscard]] const StreamOptions& options() const { return options_; }
  [[nodiscard]] const PackedWeights& weights() const { return weights_; }
  [[nodiscard]] stream::ChunkPlan largest_plan() const {
    return pipeline_->plan(options_.max_rows);
  }

 private:
  OperatorCore(PackedWeights weights, StreamOptions options, bool quantises)
      : weights_(std::move(weights)), options_(options), quantises_(quantises) {}

  PackedWeights weights_;
  StreamOptions options_;
  bool quantises_;
  std::unique_ptr<Pipeline> pipeline_;
  std::vector<std::int64_t> even_rows_;
};

}  // namespace tandem::op
