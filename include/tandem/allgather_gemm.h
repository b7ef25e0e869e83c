// SPDX-License-Identifier: Apache-2.0
//
// AllGatherGemm: every rank holds rows of A, every rank gets C = (all rows) × B. The multiply runs
// on each chunk of A as it arrives from its owner; nobody waits for the whole gather.
// Source: the PTO "AllGather + GEMM" operator for Ascend NPUs.
//
//   auto op = tandem::AllGatherGemm::create(world, weights, {.max_rows = 512});
//   auto status = op->run({.a = my_rows, .c = my_c});
//
// Numerics are a contract (docs/numerics.md): C has the same bits for any number of ranks,
// threads, chunks, any transport and any instruction set.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "tandem/export.h"
#include "tandem/matrix.h"
#include "tandem/status.h"
#include "tandem/stream_options.h"
#include "tandem/types.h"
#include "tandem/weights.h"
#include "tandem/world.h"

namespace tandem {

namespace op {
class AllGatherGemmImpl;
}

using AllGatherGemmOptions = StreamOptions;

/// The arguments of one call. Every rank's call must agree on `rows`.
struct AllGatherGemmCall {
  /// This rank's rows of A: M_r × K in the weights' type. M_r may be 0.
  ConstMatrix a;
  /// Receives M × N (M = the sum of all shards): f32, f16 or bf16. Overwritten, never read.
  Matrix c;
  /// Rows of every rank, in rank order. Empty means that every rank brings a.rows.
  std::span<const std::int64_t> rows = {};
  /// When set, also receives the gathered A: M × K in A's type.
  std::optional<Matrix> gathered_a = std::nullopt;
};

/// A prepared operator: weights bound, window slots allocated, threads parked. Call it many times.
/// Thread-safety: one call at a time per operator; different operators may run concurrently.
class TANDEM_API AllGatherGemm {
 public:
  /// Collective. Every rank passes the same options and weights of the same K and type (N may
  /// differ). `weights` is what pack() returned, or PackedWeights: a rank whose packing failed, or
  /// whose options are wrong, tells the others, so that create() returns an error that names that
  /// rank and its reason on every rank, at once, and the world can be used on. Errors:
  /// kInvalidArgument, kUnsupported, kOutOfMemory, kMismatch, kTimeout, kPeerLost.
  static Result<AllGatherGemm> create(const World& world, Result<PackedWeights> weights,
                                      AllGatherGemmOptions options);

  AllGatherGemm(AllGatherGemm&&) noexcept;
  AllGatherGemm& operator=(AllGatherGemm&&) noexcept;
  /// Not collective: a peer that still calls the operator afterwards gets kPeerLost.
  ~AllGatherGemm();

  /// Collective. Computes C on every rank. On return the caller may reuse A and C. C must not
  /// overlap A or gathered_a. A rank whose arguments are wrong tells the others: every rank's call
  /// returns an error that names that rank and its reason, and the operator can be called again; so
  /// it can after kMismatch. After any other error (kOutOfMemory in the middle of a call, kTimeout,
  /// kPeerLost) it stays failed: the first failure is returned by this and all later calls on every
  /// rank. C is unspecified after an error. A second thread that calls while a call runs gets
  /// kInvalidArgument, a process forked from the one that made the operator kUnsupported; neither
  /// disturbs anybody.
  Status run(const AllGatherGemmCall& call);

  /// The place in this rank's window where the next call's A may be written, so that the call
  /// copies nothing: `rows` × K, dense. Pass the view as `a` of the next call. It is good for that
  /// call alone, whether that succeeds or not: run() refuses it afterwards. Waits until the ranks
  /// have finished with the slot; after a refused call, until every rank calls again.
  /// Transfer::pull only; kUnsupported otherwise.
  [[nodiscard]] Result<Matrix> acquire_input(std::int64_t rows);

  [[nodiscard]] std::int64_t chunks(std::int64_t rows) const;  ///< chunks of a shard of `rows`
  [[nodiscard]] std::int64_t tile_m() const;
  [[nodiscard]] std::int64_t tile_k() const;
  [[nodiscard]] std::int64_t window_bytes() const;  ///< shared memory that this rank's part takes

  [[nodiscard]] op::AllGatherGemmImpl& impl() const { return *impl_; }

 private:
  explicit AllGatherGemm(std::unique_ptr<op::AllGatherGemmImpl> impl);
  std::unique_ptr<op::AllGatherGemmImpl> impl_;
};

}  // namespace tandem
