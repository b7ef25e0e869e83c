// SPDX-License-Identifier: Apache-2.0
//
// Behind tandem::AllGatherGemmDequant: validation and the dequantisation's factors in front of a
// Pipeline.
#pragma once

#include <memory>
#include <vector>

#include "op/operator_core.h"
#include "tandem/allgather_gemm_dequant.h"

namespace tandem::op {

class AllGatherGemmDequantImpl {
 public:
  explicit AllGatherGemmDequantImpl(ActivationKind activations) : activations_(activations) {}
  /// Checks and copies the factors, for weights that outlive this.
  Status prepare(const block::PackedB& b, const Dequantisation& given);
  /// Before anything else: what was made on all ranks.
  void take(std::unique_ptr<OperatorCore> core) { core_ = std::move(core); }

  Status run(const AllGatherGemmDequantCall& call, Phase phase);
  /// Not collective: multiplies and dequantises A that lies gathered in local memory.
  Status multiply(ConstMatrix gathered, const float* row_scales, std::span<const std::int64_t> rows,
                  Matrix c);
  [[nodiscard]] OperatorCore& core() { return *core_; }

 private:
  [[nodiscard]] Status check(const AllGatherGemmDequantCall& call,
                             std::span<const std::int64_t> rows, Phase phase) const;
  [[nodiscard]] Status check_scales(const AllGatherGemmDequantCall& call) const;

  std::unique_ptr<OperatorCore> core_;
  ActivationKind activations_;
  /// One factor per packed column: kernels read whole register blocks.
  std::vector<float> scale_, requantise_;
  block::Dequantisation factors_;
};

}  // namespace tandem::op
