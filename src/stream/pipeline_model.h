// SPDX-License-Identifier: Apache-2.0
//
// PipelineModel: the times of one call under one plan, as sums and one maximum. It follows
// docs/protocol.md: own rows first, then the peers' in the order in which they arrive, block by
// block, each block when the chunk that completes it is here. All ranks are taken to be equal, so
// one rank stands for all, and one peer's shard for all peers'. docs/scaling.md derives the
// formulas; plan.cc searches with them. Start reading at fused().
#pragma once

#include <cstdint>

#include "stream/chunk_plan.h"
#include "tandem/plan.h"

namespace tandem::stream {

/// How chunks reach their readers.
struct Route {
  Transfer transfer = Transfer::pull;
  bool once_per_machine = true;
};

/// Seconds, throughout. Cheap: a few hundred operations for fused(), the number of ranks does not
/// matter.
class PipelineModel {
 public:
  /// `shape` and `machine` are within bounds; `chunks` is the plan of a shard.
  PipelineModel(const PlanShape& shape, const PlanMachine& machine, const ChunkPlan& chunks,
                const Route& route);

  /// Gathered A, multiplied: own rows, then the peers'.
  [[nodiscard]] double compute() const;
  /// A gather of A into every rank's memory.
  [[nodiscard]] double comm() const;
  [[nodiscard]] double fused() const;

  /// From the start until the link has carried everything, without latency.
  [[nodiscard]] double link() const;
  [[nodiscard]] double latency() const { return latency_; }
  /// CPU time of communication on the cores that multiply, spread over the call.
  [[nodiscard]] double comm_cpu() const;
  /// Of compute(), the part that is arithmetic; the rest waits for weights.
  [[nodiscard]] double arithmetic() const;

  [[nodiscard]] int machines() const { return static_cast<int>(machines_); }
  /// Into each machine.
  [[nodiscard]] double wire_bytes() const;

 private:
  /// Multiplying one block, and `shards` neighbours' shards of which every block is full but the
  /// last.
  [[nodiscard]] double block_work(std::int64_t rows) const;
  [[nodiscard]] double run_work(std::int64_t rows) const;
  [[nodiscard]] double peers_work(std::int64_t peers) const;
  /// From the start of the first shard's transfer, among `shards` that share their blocks, to the
  /// end of their multiplication, as far as arrivals decide. `stretch` multiplies all work.
  [[nodiscard]] double after_arrivals(std::int64_t shards, double stretch) const;

  PlanShape shape_;
  ChunkPlan chunks_;
  Route route_;
  std::int64_t machines_ = 1, local_ = 1, remote_ = 0;  ///< remote: ranks of other machines
  std::int64_t shared_ = 1;  ///< neighbouring shards that share a row block
  std::int64_t step_ = 1;    ///< rows of a block
  double row_work_ = 0, weight_pass_ = 0;
  double shard_link_ = 0;  ///< of one shard through the ingress
  double latency_ = 0;
  double shard_copy_ = 0;  ///< one shard copied once, by each rank of a machine at the same time
  double chunk_cpu_ = 0, byte_cpu_ = 0;
  bool mesh_ = false;
};

}  // namespace tandem::stream
