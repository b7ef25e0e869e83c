// SPDX-License-Identifier: Apache-2.0
//
// How a pipeline is made: start reading at create(). Whatever may fail on one rank alone is done
// ahead of an exchange that tells the others, so that all ranks have the pipeline or none.
#include <fmt/format.h>

#include "base/guarded.h"
#include "op/link_tiles.h"
#include "op/pipeline.h"
#include "platform/topology.h"

namespace tandem::op {
namespace {

constexpr std::size_t align(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Result<std::unique_ptr<Pipeline>> Pipeline::create(std::shared_ptr<symm::World> world,
                                                   const block::PackedB& weights,
                                                   const Travelling& what, bool quantises,
                                                   const StreamOptions& options) {
  const auto neighbours = static_cast<int>(world->machines().local_ranks().size());
  std::unique_ptr<Pipeline> self;
  LinkBelief belief;
  const Status local = base::guarded([&] {
    self.reset(new Pipeline(world, weights, what, quantises, options));
    belief = believe(weights, options, neighbours);
    return self->allocate();
  });
  const symm::Terms own{belief.row_picoseconds, belief.bytes_per_second, belief.latency_nanoseconds,
                        belief.row_quantum};
  auto all = world->exchange(symm::Collective::create_operator,
                             local.ok() ? Result<symm::Terms>(own) : local);
  if (!all.ok()) return all.status();
  if (plans_for_link(options)) {
    for (const symm::Terms& t : *all) belief = belief.slower({t[0], t[1], t[2], t[3]});
    plan_for_link(belief, world->size(), options.max_rows, self->policy_);
  }
  self->shared_rows_ = shared_rows(belief, weights, options, neighbours, self->blocking_.mc);
  if (Status status = self->create_window(); !status.ok()) return status;
  return self;
}

Pipeline::Pipeline(std::shared_ptr<symm::World> world, const block::PackedB& weights,
                   const Travelling& what, bool quantises, const StreamOptions& options)
    : world_(std::move(world)),
      weights_(&weights),
      options_(options),
      what_(what),
      quantises_(quantises),
      workspace_(world_->size(), what, options),
      blocking_(block::blocking_for(*weights.kernel, platform::cache_sizes())) {
  policy_ = {.k = weights.k,
             .element_bytes = static_cast<std::int64_t>(size_of(what.type)),
             .tile_m = options.tile_m,
             .tile_k = options.tile_k,
             .block_rows = blocking_.mc,
             .whole_rows = quantises,
             .stage_rows = workspace_.stage_rows};
}

Status Pipeline::allocate() {
  const tile::Kernel& kernel = *weights_->kernel;
  const std::size_t a_bytes = align(block::packed_a_bytes(kernel, blocking_));
  const std::size_t each = a_bytes + align(block::accumulator_bytes(kernel, blocking_));
  const int threads = options_.compute_threads;
  auto memory = platform::PageBuffer::create(each * static_cast<std::size_t>(threads),
                                             /*huge=*/true, "the scratch of the compute threads");
  if (!memory.ok()) return memory.status();
  scratch_memory_ = std::move(memory).value();
  for (int t = 0; t < threads; ++t) {
    std::byte* at = scratch_memory_.data() + static_cast<std::size_t>(t) * each;
    scratch_.push_back({at, at + a_bytes,
                        std::vector<const std::byte*>(static_cast<std::size_t>(blocking_.mc)),
                        std::vector<float>(static_cast<std::size_t>(blocking_.mc))});
  }

  auto compute_team = platform::Team::create(threads - 1, "tandem-compute", world_->spin(threads));
  if (!compute_team.ok()) return compute_team.status();
  compute_team_ = std::move(compute_team).value();
  // Each thread takes its own scratch, which then lies on its NUMA node.
  const auto touch = [&](int thread) {
    return scratch_memory_.touch(static_cast<std::size_t>(thread) * each, each);
  };
  compute_team_->start(threads - 1, [&touch](int member) { return touch(member + 1); });
  // Guarded: nothing may leave this frame while the members use it.
  const Status own = base::guarded([&] { return touch(0); });
  const Status others = compute_team_->join();
  if (Status touched = own.ok() ? others : own; !touched.ok()) return touched;
  // Lanes never poll between calls: they share the cores with the compute threads.
  auto lane_team = platform::Team::create(options_.comm_threads, "tandem-lane", platform::Spin{},
                                          platform::Pace::brief);
  if (!lane_team.ok()) return lane_team.status();
  lane_team_ = std::move(lane_team).value();
  return {};
}

Status Pipeline::create_window() {
  const int ranks = world_->size();
  const bool pulls = options_.transfer == Transfer::pull;
  auto window = world_->create_window({.bytes = workspace_.total,
                                       .counters = 2 * ranks + ranks * options_.comm_threads,
                                       .threads = options_.compute_threads,
                                       .mirror_offset = workspace_.rings_at,
                                       .mirror_bytes = pulls ? workspace_.ring_bytes() : 0,
                                       .plan = policy_.hash()},
                                      [this](symm::Window& made) { return equip(made); });
  if (!window.ok()) return window.status();
  window_ = std::move(window).value();
  return {};
}

Status Pipeline::equip(symm::Window& window) {
  for (int lane = 0; lane < options_.comm_threads; ++lane) {
    lanes_.push_back(transport::make_lane(options_.transport, window, lane, options_.timeout));
  }
  send_steps_ = send_steps();
  return {};
}

std::vector<stream::SendStep> Pipeline::send_steps() const {
  using stream::SendOrder;
  SendOrder order = SendOrder::by_peer;
  if (options_.transfer == Transfer::pull) {
    if (options_.transport.kind == TransportKind::mpi) order = SendOrder::by_machine;
    if (options_.transport.kind == TransportKind::shm) order = SendOrder::together;
  }
  return stream::plan_sends(order, world_->machines(), world_->rank(), world_->size(), quantises_);
}

}  // namespace tandem::op
