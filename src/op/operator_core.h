// SPDX-License-Identifier: Apache-2.0
//
// What the public operators share in front of a Pipeline: agreement at creation, the checks of a
// call's rows, its A and its gathered A. An operator adds what its outputs need.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/guarded.h"
#include "op/pipeline.h"
#include "tandem/weights.h"

namespace tandem::op {

/// What the rows of A bring along, or become on their way.
struct Activations {
  bool row_scales = false;  ///< a scale per row travels with them
  bool quantises = false;   ///< they are floats, and travel as s8 with scales
};

class OperatorCore {
 public:
  /// Collective. `valid` is what the operator found in its own arguments. Where it, the weights or
  /// the options are not right on some rank, every rank gets an error that names that rank.
  static Result<std::unique_ptr<OperatorCore>> create(const World& world,
                                                      const Result<PackedWeights>& weights,
                                                      Activations activations,
                                                      StreamOptions options, const Status& valid);

  /// The edge of every call of an operator: in the process that made it, one at a time, and what is
  /// thrown inside becomes a Status. `work` returns a Status or a Result.
  template <class Work>
  auto enter(Work&& work) -> decltype(work()) {
    if (Status status = world_->check_process(); !status.ok()) return status;
    // Acquire: pairs with the release below, so that a call sees what the last one left, whichever
    // thread made it.
    if (busy_.exchange(true, std::memory_order_acquire)) return busy();
    auto result = base::guarded(std::forward<Work>(work));
    busy_.store(false, std::memory_order_release);
    return result;
  }

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
  OperatorCore(std::shared_ptr<symm::World> world, PackedWeights weights, StreamOptions options,
               bool quantises)
      : world_(std::move(world)),
        weights_(std::move(weights)),
        options_(options),
        quantises_(quantises),
        even_rows_(static_cast<std::size_t>(world_->size())) {}
  [[nodiscard]] static Status busy();

  std::shared_ptr<symm::World> world_;
  std::atomic<bool> busy_{false};
  PackedWeights weights_;
  StreamOptions options_;
  bool quantises_;
  std::unique_ptr<Pipeline> pipeline_;
  std::vector<std::int64_t> even_rows_;
};

}  // namespace tandem::op
