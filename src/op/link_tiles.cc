// SPDX-License-Identifier: Apache-2.0
//
// Two questions to make_plan(): for the largest shard, and for one that is a single row block.
#include "op/link_tiles.h"

#include <algorithm>
#include <cmath>

#include "platform/topology.h"
#include "stream/row_blocks.h"
#include "tandem/plan.h"

namespace tandem::op {
namespace {

/// Operations a second of one thread, within a factor of two on the machine of
/// docs/performance.md and rather too high: then chunks are rather too fine, which costs less than
/// too coarse. Only whether a chunk is one row block or several depends on it.
double nominal_rate(const tile::Kernel& kernel) {
  if (kernel.target == "scalar") return 6e9;
  return kernel.type == DType::s8 ? 600e9 : 150e9;
}

}  // namespace

LinkBelief LinkBelief::slower(const LinkBelief& other) const {
  return {std::max(row_picoseconds, other.row_picoseconds),
          std::min(bytes_per_second, other.bytes_per_second),
          std::max(latency_nanoseconds, other.latency_nanoseconds),
          std::max(row_quantum, other.row_quantum)};
}

LinkBelief believe(const block::PackedB& weights, const StreamOptions& options, int ranks) {
  constexpr double kMost = 9e18;
  const double operations = 2 * static_cast<double>(weights.k) * static_cast<double>(weights.n);
  const auto cores = static_cast<double>(platform::topology().cores.size());
  const double threads = std::min<double>(options.compute_threads, cores / ranks);
  const double seconds = operations / (nominal_rate(*weights.kernel) * threads);
  const Link& link = options.transport.link;
  return {std::llround(std::clamp(seconds * 1e12, 1.0, kMost)),
          std::llround(std::clamp(link.bytes_per_second, 1.0, kMost)), link.latency.count(),
          weights.kernel->mr};
}

std::int64_t shared_rows(const LinkBelief& belief, const block::PackedB& weights,
                         const StreamOptions& options, int ranks, std::int64_t most_rows) {
  if (options.transport.kind == TransportKind::shm) return most_rows;
  const double row_bytes =
      static_cast<double>(weights.k) * static_cast<double>(size_of(weights.kernel->type));
  const double memory = PlanMachine{}.memory_bytes_per_second / ranks;
  return stream::rows_to_share({.work = static_cast<double>(belief.row_picoseconds) * 1e-12,
                                .pass = row_bytes * static_cast<double>(weights.n) / memory,
                                .link = row_bytes / static_cast<double>(belief.bytes_per_second)},
                               most_rows, weights.kernel->mr);
}

bool plans_for_link(const StreamOptions& options) {
  return options.transport.kind != TransportKind::shm && options.tile_m == 0 && options.tile_k == 0;
}

void plan_for_link(const LinkBelief& belief, int ranks, std::int64_t max_rows,
                   stream::TilePolicy& policy) {
  const auto best = [&](std::int64_t rows) {
    return make_plan({.ranks = ranks,
                      .rows = rows,
                      .k = policy.k,
                      .n = 1,
                      .element_bytes = policy.element_bytes,
                      .block_rows = policy.block_rows,
                      .block_quantum = belief.row_quantum},
                     {.rank_flops = 2e12 * static_cast<double>(policy.k) /
                                    static_cast<double>(belief.row_picoseconds),
                      .link = {.bytes_per_second = static_cast<double>(belief.bytes_per_second),
                               .latency = std::chrono::nanoseconds(belief.latency_nanoseconds)}},
                     {.transfer = Transfer::pull});
  };
  // Should a plan be refused, the rule for shared memory stays: chunks are right at any size.
  if (max_rows > policy.block_rows) {
    if (const auto plan = best(std::min(max_rows, policy.stage_rows)); plan.ok()) {
      policy.link_tile_m = plan->chunk_rows;
    }
  }
  if (const auto plan = best(std::min(max_rows, policy.block_rows)); plan.ok()) {
    policy.link_tile_k = plan->tile_k;
  }
}

}  // namespace tandem::op
