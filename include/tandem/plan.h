// SPDX-License-Identifier: Apache-2.0
//
// What a streaming operator would take on other machines: compute, communication, one after the
// other, and fused, predicted from a rate and a link, for 2 to 4,096 ranks and more. Pure
// arithmetic: nothing runs, nothing is read. `tandem plan` prints it, and the operators pick their
// chunks by it where a link carries them. docs/scaling.md has the formulas and how well they hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tandem/export.h"
#include "tandem/status.h"
#include "tandem/transport.h"
#include "tandem/types.h"

namespace tandem {

/// How machines are joined.
enum class Wiring : std::uint8_t {
  shared,  ///< one egress and one ingress for each machine, as a network card has
  mesh,    ///< a link of its own between every two machines, as accelerators of one box have; the
           ///< sources then arrive side by side, and are multiplied one after the other
};

/// What bounds a plan.
enum class Bound : std::uint8_t {
  compute,  ///< the multiply
  weights,  ///< reading the weights once per row block, where blocks have few rows
  link,     ///< bytes over bandwidth
  latency,  ///< the link's latency
  memory,   ///< copying within one machine
  chunks,   ///< the CPU time of so many chunks
};

[[nodiscard]] TANDEM_API std::string_view name(Wiring wiring);
[[nodiscard]] TANDEM_API std::string_view name(Bound bound);

/// What is multiplied. All ranks bring the same number of rows.
struct PlanShape {
  int ranks = 2;                    ///< at least 1
  std::int64_t rows = 1024;         ///< of each rank's shard of A, at least 1
  std::int64_t k = 2048, n = 1024;  ///< B is k × n on every rank
  std::int64_t element_bytes = 2;   ///< of A and B
  /// Rows that the multiply takes at a time, and the multiple that it cuts them to (a kernel's mr).
  std::int64_t block_rows = 96, block_quantum = 1;
};

/// What the ranks run on.
struct PlanMachine {
  double rank_flops = 100e9;  ///< operations a second of one rank while all ranks multiply
  int ranks_per_node = 1;     ///< ranks of one machine
  Link link;                  ///< of a machine; jitter is not modelled
  Wiring wiring = Wiring::shared;
  /// Bytes a second that the ranks of one machine together read or write; a copy counts twice.
  double memory_bytes_per_second = 30e9;
  /// CPU time that a chunk costs the cores that multiply: wake-ups of its sender and its receiver.
  /// 0 where communication has a core of its own. 45 µs was measured with the simulated link.
  double chunk_seconds = 45e-6;
  /// CPU time that a byte from the network costs the cores that multiply (a TCP stack: about
  /// 0.3 to 1 ns).
  double byte_seconds = 0;
};

/// What may be left to the model: 0 and empty mean that it chooses.
struct PlanChoice {
  std::int64_t tile_m = 0, tile_k = 0;  ///< as in StreamOptions
  std::optional<Transfer> transfer = std::nullopt;
  /// A chunk crosses to each machine once, and is read there by all its ranks. Otherwise once for
  /// every rank.
  std::optional<bool> once_per_machine = std::nullopt;
};

struct Plan {
  double compute_ms = 0;     ///< gathered A, multiplied
  double comm_ms = 0;        ///< a gather of A into every rank's memory
  double sequential_ms = 0;  ///< both, one after the other
  double fused_ms = 0;
  double speedup = 0;             ///< sequential / fused
  double overlap_efficiency = 0;  ///< (comm + compute − fused) / min(comm, compute)
  double pipelined_over_max = 0;  ///< fused / max(comm, compute)
  double exposed_comm_ms = 0;     ///< fused − compute

  int machines = 1;
  std::int64_t tile_m = 0, tile_k = 0;
  std::int64_t chunk_rows = 0, chunk_bytes = 0;
  std::int64_t chunks_per_source = 0;
  Transfer transfer = Transfer::pull;  ///< within a machine
  bool once_per_machine = true;
  double wire_bytes = 0;  ///< into each machine, in one call

  Bound bound = Bound::compute;
  /// The N from which compute takes at least as long as communication, all else equal.
  double compute_bound_from_n = 0;
  /// The link bandwidth from which it does, in bytes a second; 0 where no link carries anything or
  /// latency alone is longer.
  double compute_bound_from_bandwidth = 0;
};

/// The plan with the least fused time among those that `choice` allows. Of chunk sizes within 1% of
/// the best the finest is taken, since a rate that was underestimated punishes coarse chunks.
/// Thread-safe. Errors: kInvalidArgument with the value that was out of bounds.
/// Source of the overlap that it models: the PTO AllGather + GEMM example; docs/protocol.md.
[[nodiscard]] TANDEM_API Result<Plan> make_plan(const PlanShape& shape, const PlanMachine& machine,
                                                const PlanChoice& choice = {});

}  // namespace tandem
