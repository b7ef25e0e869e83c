// SPDX-License-Identifier: Apache-2.0
//
// Life: what one rank does with an operator, step by step: pack, create, call, destroy. The fault
// programs of this folder break into it, by signals (fault_rank.cc) or by allocations that fail
// (allocation_test.cc). Its own memory is made by the constructor, so that a step runs no code that
// could fail but the library's. Start reading at ways().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tandem/allgather_gemm.h"
#include "tandem/allgather_gemm_dequant.h"
#include "tandem/weights.h"
#include "tandem/world.h"

namespace tandem::testing_fault {

/// One way of using an operator. Together they take every path on which rows travel.
struct Way {
  std::string_view name;
  StreamOptions options;
  std::optional<ActivationKind> activations = std::nullopt;  ///< none: AllGatherGemm
  bool network = true;                                       ///< also possible between machines
};

[[nodiscard]] std::span<const Way> ways();

class Life {
 public:
  /// Rank r brings so many rows to every call, up to 24 · scale, another number for each rank.
  /// Every rank knows the whole problem and its result. Throws std::bad_alloc.
  Life(const Way& way, int rank, int ranks, int scale);

  Status pack();
  Status create(const World& world);
  /// Also says so (kInternal) when a call that succeeded gave other bits than the reference.
  Status call();
  void destroy();

  /// All of it, with three calls.
  Status live(const World& world);

 private:
  [[nodiscard]] std::int64_t own_rows() const { return rows_[static_cast<std::size_t>(rank_)]; }
  [[nodiscard]] ConstMatrix own_a() const;
  void make_reference();
  Status run(ConstMatrix a, Matrix c);

  const Way& way_;
  const int rank_;
  StreamOptions options_;
  std::vector<std::int64_t> rows_;
  std::int64_t row0_ = 0, m_ = 0;
  DType a_type_, b_type_;
  std::vector<std::byte> a_, b_, c_, expected_;
  std::vector<float> row_scale_;
  std::vector<std::int32_t> bias_, sums_;
  std::vector<std::byte> gathered_;
  float scale_ = 0.0F;

  std::optional<PackedWeights> weights_;
  std::optional<AllGatherGemm> gemm_;
  std::optional<AllGatherGemmDequant> dequant_;
};

}  // namespace tandem::testing_fault
