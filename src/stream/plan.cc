// SPDX-License-Identifier: Apache-2.0
//
// make_plan(): checks, candidates, and the choice among them. PipelineModel has the times.
#include "tandem/plan.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "base/guarded.h"
#include "stream/pipeline_model.h"
#include "stream/row_blocks.h"
#include "tile/contract.h"

namespace tandem {
namespace {

using stream::ChunkPlan;
using stream::PipelineModel;
using stream::Route;

/// Among choices this close to the best, the finest chunks: the rate is known to a few percent at
/// best, and a chunk that is too coarse costs much more than one that is too fine.
constexpr double kAsGood = 1.01;

struct Tile {
  std::int64_t m = 0, k = 0;
};

struct Candidate {
  PipelineModel model;
  ChunkPlan chunks;
  Route route;
};

Status bad(std::string_view what, double value, std::string_view bound) {
  return {StatusCode::kInvalidArgument,
          fmt::format("plan: {} is {}; it must be {}", what, value, bound)};
}

Status check(const PlanShape& s, const PlanMachine& m, const PlanChoice& c) {
  // So large that no plan is, and so small that sums of two stay in 64 bits.
  constexpr std::int64_t kMost = std::int64_t{1} << 57;
  struct Integer {
    std::string_view name;
    std::int64_t value, least;
  };
  for (const Integer& i :
       {Integer{"ranks", s.ranks, 1}, Integer{"rows", s.rows, 1}, Integer{"K", s.k, 1},
        Integer{"N", s.n, 1}, Integer{"element_bytes", s.element_bytes, 1},
        Integer{"block_rows", s.block_rows, 1}, Integer{"block_quantum", s.block_quantum, 1},
        Integer{"ranks_per_node", m.ranks_per_node, 1}, Integer{"tile_m", c.tile_m, 0},
        Integer{"tile_k", c.tile_k, 0}}) {
    if (i.value >= i.least && i.value <= kMost) continue;
    return bad(i.name, static_cast<double>(i.value),
               i.value < i.least ? fmt::format("at least {}", i.least) : "at most 2^57");
  }
  if (m.wiring != Wiring::shared && m.wiring != Wiring::mesh) {
    return bad("wiring", static_cast<double>(m.wiring), "shared or mesh");
  }
  if (c.transfer && *c.transfer != Transfer::pull && *c.transfer != Transfer::push) {
    return bad("transfer", static_cast<double>(*c.transfer), "pull or push");
  }
  // The chunk plan counts a shard's bytes in 64 bits.
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(s.rows, s.k, &bytes) ||
      __builtin_mul_overflow(bytes, s.element_bytes, &bytes) || bytes > kMost) {
    return bad("rows × K × element_bytes",
               static_cast<double>(s.rows) * static_cast<double>(s.k) *
                   static_cast<double>(s.element_bytes),
               "a shard of at most 2^57 bytes");
  }
  struct Real {
    std::string_view name;
    double value;
    bool zero;
  };
  for (const Real& r :
       {Real{"rank_flops", m.rank_flops, false},
        Real{"link bandwidth", m.link.bytes_per_second, false},
        Real{"memory_bytes_per_second", m.memory_bytes_per_second, false},
        Real{"chunk_seconds", m.chunk_seconds, true}, Real{"byte_seconds", m.byte_seconds, true}}) {
    const bool in_bounds = r.zero ? r.value >= 0 : r.value > 0;
    if (in_bounds && r.value <= std::numeric_limits<double>::max()) continue;
    return bad(r.name, r.value, r.zero ? "0 or more" : "above 0");
  }
  if (m.link.latency.count() < 0) {
    return bad("link latency (ns)", static_cast<double>(m.link.latency.count()), "0 or more");
  }
  return {};
}

/// Chunks finer than a row block let nothing start earlier: where a shard has several blocks,
/// whole numbers of them, coarsest first. A shard of one block is cut along K.
std::vector<Tile> candidates(const PlanShape& s, const PlanChoice& choice, bool link) {
  // In shared memory chunks cost next to nothing: the rule of ChunkPlan is as good as any.
  if (choice.tile_m > 0 || choice.tile_k > 0 || !link) return {{choice.tile_m, choice.tile_k}};
  std::vector<Tile> tiles;
  const auto geometric = [&](std::int64_t most, auto&& add) {
    for (std::int64_t parts = 1; parts < most; parts += std::max<std::int64_t>(1, parts / 8)) {
      add(parts);
    }
    add(most);
  };
  if (s.rows <= s.block_rows) {
    const std::int64_t deep = (s.k + tile::kKc - 1) / tile::kKc;
    geometric(deep, [&](std::int64_t parts) {
      tiles.push_back({s.rows, std::min(s.k, (deep + parts - 1) / parts * tile::kKc)});
    });
  } else {
    const std::int64_t step = stream::block_step(s.rows, s.block_rows, s.block_quantum);
    const std::int64_t blocks = (s.rows + step - 1) / step;
    geometric(blocks, [&](std::int64_t parts) {
      tiles.push_back({(blocks + parts - 1) / parts * step, s.k});
    });
  }
  return tiles;
}

std::vector<Route> routes(const PlanMachine& m, const PlanChoice& choice, bool link) {
  std::vector<Route> found;
  for (Transfer transfer : {Transfer::pull, Transfer::push}) {
    if (choice.transfer && *choice.transfer != transfer) continue;
    for (bool once : {true, false}) {
      if (choice.once_per_machine ? *choice.once_per_machine != once
                                  : !once && (!link || m.ranks_per_node == 1)) {
        continue;
      }
      found.push_back({transfer, once});
    }
  }
  return found;
}

Bound bound_of(const PipelineModel& model, const PlanMachine& machine) {
  const double compute = model.compute(), cpu = model.comm_cpu();
  const bool link = model.machines() > 1;
  if (link && model.comm() > compute + cpu) {
    if (model.latency() > model.link()) return Bound::latency;
    // link() counts the wire or, where they take longer, the senders.
    const double wire = model.wire_bytes() / machine.link.bytes_per_second;
    const bool shared = machine.wiring == Wiring::shared;
    return shared && model.link() > 1.01 * wire ? Bound::chunks : Bound::link;
  }
  if (cpu > compute) return link ? Bound::chunks : Bound::memory;
  return compute > 1.5 * model.arithmetic() ? Bound::weights : Bound::compute;
}

Plan describe(const Candidate& best, const PlanShape& shape, const PlanMachine& machine) {
  constexpr double kMs = 1e3;
  const PipelineModel& model = best.model;
  const double compute = model.compute(), comm = model.comm(), fused = model.fused();
  Plan plan;
  plan.compute_ms = compute * kMs;
  plan.comm_ms = comm * kMs;
  plan.sequential_ms = (compute + comm) * kMs;
  plan.fused_ms = fused * kMs;
  plan.speedup = (compute + comm) / fused;
  plan.overlap_efficiency = (comm + compute - fused) / std::min(comm, compute);
  plan.pipelined_over_max = fused / std::max(comm, compute);
  plan.exposed_comm_ms = (fused - compute) * kMs;
  plan.machines = model.machines();
  plan.tile_m = best.chunks.tile_m();
  plan.tile_k = best.chunks.tile_k();
  const stream::Chunk first = best.chunks.chunk(0);
  plan.chunk_rows = first.rows;
  plan.chunk_bytes = first.rows * first.cols * shape.element_bytes;
  plan.chunks_per_source = best.chunks.chunks();
  plan.transfer = best.route.transfer;
  plan.once_per_machine = best.route.once_per_machine;
  plan.wire_bytes = model.wire_bytes();
  plan.bound = bound_of(model, machine);
  plan.compute_bound_from_n = static_cast<double>(shape.n) * comm / compute;
  if (model.link() > 0 && compute > model.latency()) {
    plan.compute_bound_from_bandwidth =
        machine.link.bytes_per_second * model.link() / (compute - model.latency());
  }
  return plan;
}

Plan best_plan(const PlanShape& shape, const PlanMachine& machine, const PlanChoice& choice) {
  const bool link = shape.ranks > machine.ranks_per_node;
  std::vector<Candidate> all;
  for (const Route& route : routes(machine, choice, link)) {
    for (const Tile& tile : candidates(shape, choice, link)) {
      const ChunkPlan chunks({.k = shape.k,
                              .element_bytes = shape.element_bytes,
                              .tile_m = tile.m,
                              .tile_k = tile.k,
                              .block_rows = shape.block_rows},
                             shape.rows);
      all.push_back({PipelineModel(shape, machine, chunks, route), chunks, route});
    }
  }
  // The first route that is best is taken: pull before push, once before often.
  const auto best = std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.model.fused() < b.model.fused();
  });
  const Candidate* chosen = &*best;
  for (const Candidate& c : all) {
    const bool same = c.route.transfer == best->route.transfer &&
                      c.route.once_per_machine == best->route.once_per_machine;
    if (same && c.model.fused() <= kAsGood * best->model.fused() &&
        c.chunks.chunks() > chosen->chunks.chunks()) {
      chosen = &c;
    }
  }
  return describe(*chosen, shape, machine);
}

}  // namespace

std::string_view name(Wiring wiring) {
  switch (wiring) {
    case Wiring::shared:
      return "shared";
    case Wiring::mesh:
      return "mesh";
  }
  return "unknown";
}

std::string_view name(Bound bound) {
  switch (bound) {
    case Bound::compute:
      return "compute";
    case Bound::weights:
      return "weights";
    case Bound::link:
      return "link";
    case Bound::latency:
      return "latency";
    case Bound::memory:
      return "memory";
    case Bound::chunks:
      return "chunks";
  }
  return "unknown";
}

Result<Plan> make_plan(const PlanShape& shape, const PlanMachine& machine,
                       const PlanChoice& choice) {
  return base::guarded([&]() -> Result<Plan> {
    if (Status status = check(shape, machine, choice); !status.ok()) return status;
    return best_plan(shape, machine, choice);
  });
}

}  // namespace tandem
