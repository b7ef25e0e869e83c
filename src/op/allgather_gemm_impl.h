// SPDX-License-Identifier: Apache-2.0
//
// Behind tandem::AllGatherGemm: validation in front of a Pipeline. measure.cc also calls the
// phases that a user does not need.
#pragma once

#include <memory>
#include <vector>

#include "op/pipeline.h"
#include "tandem/allgather_gemm.h"

namespace tandem::op {

class AllGatherGemmImpl {
 public:
  AllGatherGemmImpl(std::unique_ptr<Pipeline> pipeline, PackedWeights weights,
                    AllGatherGemmOptions options)
      : weights_(std::move(weights)), options_(options), pipeline_(std::move(pipeline)) {}

  Status run(const AllGatherGemmCall& call, Phase phase);
  Status multiply(ConstMatrix gathered, std::span<const std::int64_t> rows, Matrix c) {
    return pipeline_->multiply(gathered, rows, c);
  }
  Result<Matrix> acquire_input(std::int64_t rows);

  [[nodiscard]] const AllGatherGemmOptions& options() const { return options_; }
  [[nodiscard]] const Pipeline& pipeline() const { return *pipeline_; }

 private:
  [[nodiscard]] Status check(const AllGatherGemmCall& call, std::span<const std::int64_t> rows,
                             Phase phase) const;

  PackedWeights weights_;
  AllGatherGemmOptions options_;
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace tandem::op
