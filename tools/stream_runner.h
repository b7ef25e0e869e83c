// SPDX-License-Identifier: Apache-2.0
//
// StreamRunner: what the rows of the operator table have in common once the library's operator
// exists. allgather_gemm.cc and allgather_gemm_dequant.cc add the call.
#pragma once

#include <string>
#include <utility>

#include "operators.h"

namespace tandem::tool {

template <class Op>
class StreamRunner : public Runner {
 public:
  StreamRunner(Op op, const Job& job, std::string kernel)
      : op_(std::move(op)), job_(job), kernel_(std::move(kernel)) {}

  Result<std::optional<Matrix>> place_for_a(std::int64_t rows) override {
    if (job_.workspace != Workspace::direct) return std::optional<Matrix>();
    auto place = op_.acquire_input(rows);
    if (!place.ok()) return place.status();
    return std::optional<Matrix>(*place);
  }

  Status run(const Matrix& a, const Outputs& outputs) override {
    // A stays where it lies; the operator only has to be asked before every call.
    if (job_.workspace == Workspace::direct) {
      if (auto place = op_.acquire_input(a.rows); !place.ok()) return place.status();
    }
    return call(a, outputs);
  }

  [[nodiscard]] Prepared prepared() const override {
    return {.kernel = kernel_,
            .chunks_per_source = op_.chunks(job_.max_rows()),
            .tile_m = op_.tile_m(),
            .tile_k = op_.tile_k(),
            .window_bytes = op_.window_bytes()};
  }

  Result<std::unique_ptr<BlockCheck>> block_check(std::int64_t /*most_rows*/) override {
    return std::unique_ptr<BlockCheck>();
  }

 protected:
  virtual Status call(const Matrix& a, const Outputs& outputs) = 0;

  Op op_;
  const Job& job_;
  std::string kernel_;
};

}  // namespace tandem::tool
