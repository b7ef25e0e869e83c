// SPDX-License-Identifier: Apache-2.0
//
// Pipeline: creation, then the life of a call in run().
#include "op/pipeline.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/guarded.h"
#include "op/link_tiles.h"
#include "platform/delay.h"
#include "platform/topology.h"
#include "tile/contract.h"

namespace tandem::op {
namespace {

/// Up to here the calling thread moves the chunks itself before it computes: waking a lane thread
/// takes 5 to 50 µs, copying 64 KiB about 5.
constexpr std::int64_t kInlineBytes = 64 << 10;
constexpr std::int64_t kInlineParcels = 64;
constexpr std::size_t align(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Result<std::unique_ptr<Pipeline>> Pipeline::create(std::shared_ptr<symm::World> world,
                                                   const block::PackedB& weights,
                                                   const Travelling& what, bool quantises,
                                                   const StreamOptions& options) {
  std::unique_ptr<Pipeline> self(new Pipeline);
  self->world_ = std::move(world);
  self->weights_ = &weights;
  self->options_ = options;
  self->what_ = what;
  self->quantises_ = quantises;
  self->workspace_ = WorkspacePlan(self->world_->size(), what, options);
  self->blocking_ = block::blocking_for(*weights.kernel, platform::cache_sizes());
  self->policy_ = {.k = weights.k,
                   .element_bytes = static_cast<std::int64_t>(size_of(what.type)),
                   .tile_m = options.tile_m,
                   .tile_k = options.tile_k,
                   .block_rows = self->blocking_.mc,
                   .whole_rows = quantises,
                   .stage_rows = self->workspace_.stage_rows};

  // A rank that fails alone says so before the others wait for it in create_window().
  const Status local = self->allocate();
  const auto neighbours = static_cast<int>(self->world_->machines().local_ranks().size());
  LinkBelief belief = believe(weights, options, neighbours);
  auto codes = self->world_->exchange({static_cast<std::int64_t>(local.code()),
                                       belief.row_picoseconds, belief.bytes_per_second,
                                       belief.latency_nanoseconds, belief.row_quantum});
  if (!local.ok()) return local;
  if (!codes.ok()) return codes.status();
  for (std::size_t r = 0; r < codes->size(); ++r) {
    const auto code = static_cast<StatusCode>((*codes)[r][0]);
    if (code == StatusCode::kOk) continue;
    return Status(
        code, fmt::format("rank {} could not create its part of the operator: {}", r, name(code)));
  }
  if (plans_for_link(options)) {
    for (const symm::Terms& t : *codes) belief = belief.slower({t[1], t[2], t[3], t[4]});
    plan_for_link(belief, self->world_->size(), options.max_rows, self->policy_);
  }
  self->shared_rows_ = shared_rows(belief, weights, options, neighbours, self->blocking_.mc);
  if (Status status = self->create_window(); !status.ok()) return status;
  return self;
}

Status Pipeline::allocate() {
  const tile::Kernel& kernel = *weights_->kernel;
  const std::size_t a_bytes = align(block::packed_a_bytes(kernel, blocking_));
  const std::size_t each = a_bytes + align(block::accumulator_bytes(kernel, blocking_));
  const int threads = options_.compute_threads;
  auto memory =
      platform::PageBuffer::create(each * static_cast<std::size_t>(threads), /*huge=*/true);
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
                                       .mirror_bytes = pulls ? workspace_.ring_bytes() : 0});
  if (!window.ok()) return window.status();
  window_ = std::move(window).value();
  for (int lane = 0; lane < options_.comm_threads; ++lane) {
    lanes_.push_back(transport::make_lane(options_.transport, *window_, lane, options_.timeout));
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
  return stream::plan_sends(order, window_->machines(), rank(), size(), quantises_);
}

stream::StageRing Pipeline::ring(int source) const {
  return {.first = stages_before_[static_cast<std::size_t>(source)],
          .places = workspace_.stages,
          .place_bytes = workspace_.place_bytes};
}

std::vector<stream::Shard> Pipeline::shards(const PipelineCall& call,
                                            std::span<const std::int64_t> rows) const {
  const auto element = static_cast<std::size_t>(policy_.element_bytes);
  std::vector<stream::Shard> shards;
  std::int64_t row0 = 0;
  for (int r = 0; r < size(); ++r) {
    stream::Shard shard;
    shard.row0 = row0;
    shard.plan = plan(rows[static_cast<std::size_t>(r)]);
    shard.local = r == rank() && !quantises_;
    shard.scaled = what_.row_scales;
    if (shard.local) {
      shard.data = static_cast<const std::byte*>(call.a.data);
      shard.pitch = static_cast<std::size_t>(call.a.stride) * element;
      shard.scales = call.row_scale;
    } else {
      const int holder = options_.transfer == Transfer::push ? rank() : r;
      shard.data = window_->data(holder) + workspace_.ring_offset(r);
      shard.pitch = static_cast<std::size_t>(policy_.k) * element;
      shard.scales_at = workspace_.scales_at;
    }
    shard.ring = ring(r);
    shard.counter = progress_counter(r);
    shard.base = base_[static_cast<std::size_t>(r)];
    row0 += shard.rows();
    shards.push_back(shard);
  }
  return shards;
}

bool Pipeline::is_in_place(const ConstMatrix& a) const {
  return options_.transfer == Transfer::pull && a.stride == policy_.k &&
         a.data == window_->data(rank()) + workspace_.ring_offset(rank()) + ring(rank()).offset(0);
}

bool Pipeline::sends_inline(const stream::SendJob& job) const {
  // A second stage waits until the peers have computed with the first: not before we compute.
  if (options_.transport.kind != TransportKind::shm || job.plan.stages() > 1) return false;
  const std::int64_t peers = size() - 1;
  const std::int64_t bytes = job.shard.rows * policy_.k * policy_.element_bytes;
  const std::int64_t moved = job.transfer == Transfer::push ? bytes * peers
                             : job.in_place                 ? 0
                                                            : bytes;
  return moved <= kInlineBytes && job.plan.chunks() * peers <= kInlineParcels;
}

Status Pipeline::compute(stream::ComputeJob& job, const stream::Arrivals& arrivals) {
  std::vector<stream::ChunkPlan> plans;
  for (const stream::Shard& shard : arrivals.shards()) plans.push_back(shard.plan);
  // On a link the peers' rows come late: then a rank's own rows are worth a pass over B of their
  // own. In shared memory they are there at once, and B is read once for all.
  const std::vector<stream::RowBlock> blocks =
      stream::plan_row_blocks(plans, {.own = rank(),
                                      .most_rows = blocking_.mc,
                                      .quantum = weights_->kernel->mr,
                                      .merge_own = options_.transport.kind == TransportKind::shm,
                                      .shared_rows = shared_rows_});
  if (job.output.c.data != nullptr) {
    const auto groups = stream::plan_column_groups(
        *weights_, blocking_, static_cast<std::int64_t>(blocks.size()), options_.compute_threads);
    job.column_groups = groups.count;
    job.group_cols = groups.cols;
  }
  std::optional<stream::StageLedger> ledger;
  if (arrivals.window() != nullptr) {
    ledger.emplace(*window_, stage_counter() + rank(), arrivals, blocks, job.parts());
    job.ledger = &*ledger;
  }
  stream::TaskQueue tasks(arrivals, blocks, job.parts(), weights_->k,
                          std::min(tile::kKc, weights_->k));

  const int workers =
      static_cast<int>(std::clamp<std::int64_t>(tasks.tasks() - 1, 0, compute_team_->size()));
  compute_team_->start(workers, [&](int w) {
    return stream::compute(job, arrivals, tasks, scratch_[static_cast<std::size_t>(w) + 1]);
  });
  const Status own =
      base::guarded([&] { return stream::compute(job, arrivals, tasks, scratch_[0]); });
  const Status workers_status = compute_team_->join();
  return own.ok() ? workers_status : own;
}

Status Pipeline::run(const PipelineCall& call, std::span<const std::int64_t> rows, Phase phase) {
  if (Status failed = window_->failure(); !failed.ok()) return failed;
  const std::uint64_t number = ++call_;

  stream::CallHeader own{
      .call = number, .ranks = size(), .phase = static_cast<std::int32_t>(phase), .k = policy_.k};
  std::copy(rows.begin(), rows.end(), own.rows.begin());
  stream::CallHeaders headers(*window_, own, workspace_.header_offset(number), header_counter());
  const stream::Arrivals arrivals(shards(call, rows), options_.comm_threads, window_.get(),
                                  &headers, number);

  const stream::SendJob send{.shard = call.a,
                             .type = what_.type,
                             .kernel = weights_->kernel,
                             .row_scale = call.row_scale,
                             .scales_at = workspace_.scales_at,
                             .plan = plan(call.a.rows),
                             .steps = send_steps_,
                             .lanes = options_.comm_threads,
                             .transfer = options_.transfer,
                             .in_place = is_in_place(call.a),
                             .shared = window_->machines().local_ranks().size() > 1,
                             .place = workspace_.ring_offset(rank()),
                             .ring = ring(rank()),
                             .progress_counter = progress_counter(rank()),
                             .stage_counter = stage_counter(),
                             .call = number,
                             .timeout = options_.timeout};
  const auto send_lane = [&](int lane) {
    return stream::send_shard(send, lane, *lanes_[static_cast<std::size_t>(lane)], *window_,
                              headers);
  };
  const int lanes = static_cast<int>(lanes_.size());
  const bool sends = size() > 1 || quantises_;
  Status sent;
  if (sends && sends_inline(send)) {
    for (int lane = 0; sent.ok() && lane < lanes; ++lane) sent = send_lane(lane);
  } else if (sends) {
    lane_team_->start(lanes, send_lane);
  }

  stream::ComputeJob job{.weights = weights_, .output = call.output, .timeout = options_.timeout};
  if (phase == Phase::gather) job.output.c = {};
  Status status = sent.ok() ? compute(job, arrivals) : sent;
  sent = lane_team_->join();
  if (status.ok()) status = sent;
  // A rank that brings no rows may still disagree; and no call ends before all have begun it.
  if (status.ok()) status = arrivals.wait_headers(options_.timeout);
  if (!status.ok()) return window_->fail(status);
  advance(arrivals.shards());
  return {};
}

void Pipeline::advance(std::span<const stream::Shard> shards) {
  for (int r = 0; r < size(); ++r) {
    const std::int64_t chunks = shards[static_cast<std::size_t>(r)].plan.chunks();
    stages_before_[static_cast<std::size_t>(r)] +=
        static_cast<std::uint64_t>(shards[static_cast<std::size_t>(r)].plan.stages());
    for (int lane = 0; lane < options_.comm_threads; ++lane) {
      base_[static_cast<std::size_t>(r)][static_cast<std::size_t>(lane)] +=
          static_cast<std::uint32_t>(stream::on_lane(chunks, lane, options_.comm_threads));
    }
  }
}

Status Pipeline::multiply(ConstMatrix gathered, const float* row_scales,
                          std::span<const std::int64_t> rows, const stream::Output& output) {
  std::vector<stream::Shard> shards;
  std::int64_t row0 = 0;
  for (std::int64_t count : rows) {
    stream::Shard shard;
    shard.data = gathered.row(row0);
    shard.pitch = static_cast<std::size_t>(gathered.stride * policy_.element_bytes);
    shard.row0 = row0;
    shard.scaled = row_scales != nullptr;
    shard.scales = row_scales + row0;
    shard.plan = stream::ChunkPlan({.k = policy_.k}, count);
    row0 += count;
    shards.push_back(shard);
  }
  const stream::Arrivals arrivals(std::move(shards), options_.comm_threads, nullptr, nullptr, 0);
  stream::ComputeJob job{.weights = weights_, .output = output, .timeout = options_.timeout};
  return compute(job, arrivals);
}

Result<Matrix> Pipeline::acquire_input(std::int64_t rows) {
  if (Status failed = window_->failure(); !failed.ok()) return failed;
  const stream::StageRing next = ring(rank());
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    Status status = stream::wait_credit(*window_, stage_counter(), r,
                                        stream::stage_credit(next.first, next.places), call_ + 1,
                                        options_.timeout);
    if (!status.ok()) return status;
  }
  return dense(window_->data(rank()) + workspace_.ring_offset(rank()) + next.offset(0),
               weights_->kernel->type, rows, policy_.k);
}

}  // namespace tandem::op
