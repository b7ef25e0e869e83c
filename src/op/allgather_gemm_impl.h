// SPDX-License-Identifier: Apache-2.0
//
// Behind tandem::AllGatherGemm: validation in front of a Pipeline. measure.cc also calls the
// phases that a user does not need.
#pragma once

#include <memory>

#include "op/operator_core.h"
#include "tandem/allgather_gemm.h"

namespace tandem::op {

class AllGatherGemmImpl {
 public:
  /// Before anything else: what was made on all ranks.
  void take(std::unique_ptr<OperatorCore> core) { core_ = std::move(core); }

  Status run(const AllGatherGemmCall& call, Phase phase);
  /// Not collective: multiplies A that lies gathered in local memory.
  Status multiply(ConstMatrix gathered, std::span<const std::int64_t> rows, Matrix c);
  [[nodiscard]] OperatorCore& core() { return *core_; }

 private:
  [[nodiscard]] Status check(const AllGatherGemmCall& call, std::span<const std::int64_t> rows,
                             Phase phase) const;

  std::unique_ptr<OperatorCore> core_;
};

}  // namespace tandem::op
