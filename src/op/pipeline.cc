// SPDX-License-Identifier: Apache-2.0
//
// Pipeline: the life of a call. Start reading at run(). How a pipeline is made: pipeline_create.cc.
#include "op/pipeline.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/guarded.h"
#include "tile/contract.h"

namespace tandem::op {
namespace {

/// Up to here the calling thread moves the chunks itself before it computes: waking a lane thread
/// takes 5 to 50 µs, copying 64 KiB about 5.
constexpr std::int64_t kInlineBytes = 64 << 10;
constexpr std::int64_t kInlineParcels = 64;

}  // namespace

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
  return input_for_ == call_ + 1 && a.stride == policy_.k &&
         a.data == window_->data(rank()) + workspace_.ring_offset(rank()) + ring(rank()).offset(0);
}

bool Pipeline::in_window(const ConstMatrix& m) const {
  const std::int64_t elements = m.rows > 0 ? (m.rows - 1) * m.stride + m.cols : 0;
  return window_->overlaps(m.data, static_cast<std::size_t>(elements) * size_of(m.type));
}

Status Pipeline::check_place(const ConstMatrix& a) const {
  if (!in_window(a) || is_in_place(a)) return {};
  return {StatusCode::kInvalidArgument,
          fmt::format("a lies in this operator's window, but not in a place for call {}: what "
                      "acquire_input() gives is good for the next call only; ask before each call, "
                      "or pass memory of your own",
                      call_ + 1)};
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
  // Who fails ends the call for all at once: nobody else would do its tasks, nor tell its peers.
  const auto work = [&](int thread) {
    Status status = base::guarded([&] {
      return stream::compute(job, arrivals, tasks, scratch_[static_cast<std::size_t>(thread)]);
    });
    return status.ok() || arrivals.window() == nullptr ? status : fail(status);
  };
  compute_team_->start(workers, [&work](int member) { return work(member + 1); });
  const Status own = work(0);
  const Status others = compute_team_->join();
  return own.ok() ? others : own;
}

Status Pipeline::run(const PipelineCall& call, std::span<const std::int64_t> rows, Phase phase,
                     const Status& valid) {
  const bool in_place = is_in_place(call.a);
  input_for_ = 0;
  if (Status status = begin(); !status.ok()) return status;
  if (size() == 1 && !valid.ok()) return valid;

  const std::uint64_t number = ++call_;
  stream::CallHeader own{.call = number,
                         .ranks = size(),
                         .phase = static_cast<std::int32_t>(phase),
                         .refused = valid.ok() ? 0 : 1,
                         .k = policy_.k};
  if (valid.ok()) std::copy(rows.begin(), rows.end(), own.rows.begin());
  stream::CallHeaders headers(*window_, own, static_cast<std::uint32_t>(number - restarted_at_),
                              workspace_.header_offset(number), header_counter());
  if (!valid.ok()) return refuse(valid, headers);
  Status status = base::guarded([&] { return perform(call, rows, phase, in_place, headers); });
  return status.ok() ? status : fail(status);
}

Status Pipeline::begin() {
  Status failure = window_->failure();
  if (failure.ok() || !window_->refused()) return failure;
  if (Status status = window_->restart(); !status.ok()) return status;
  for (const auto& lane : lanes_) lane->forget();
  restarted_at_ = call_;
  stages_before_ = {};
  base_ = {};
  return {};
}

Status Pipeline::refuse(const Status& reason, stream::CallHeaders& headers) {
  Status told = base::guarded([&]() -> Status {
    for (int step = 1; step < size(); ++step) headers.publish((rank() + step) % size());
    // Some may still be in the call before this one, which is to end well.
    if (Status status = headers.wait_for_all(options_.timeout); !status.ok()) return status;
    (void)window_->fail({reason.code(), fmt::format("rank {} refuses call {}: {}", rank(), call_,
                                                    reason.message())},
                        /*refused=*/true);
    return {};
  });
  if (!told.ok()) (void)fail(told);
  return reason;
}

Status Pipeline::fail(const Status& failure) const {
  if (failure.code() != StatusCode::kOutOfMemory) return window_->fail(failure);
  const Status named = base::guarded([&]() -> Status {
    return {failure.code(),
            fmt::format("rank {} ran out of memory in call {}: {}; use smaller shapes or fewer "
                        "ranks, or free memory, and make the operator again",
                        rank(), call_, failure.message())};
  });
  return window_->fail(named);
}

Status Pipeline::perform(const PipelineCall& call, std::span<const std::int64_t> rows, Phase phase,
                         bool in_place, stream::CallHeaders& headers) {
  const stream::Arrivals arrivals(shards(call, rows), options_.comm_threads, window_.get(),
                                  &headers, call_);
  const stream::SendJob send{.shard = call.a,
                             .type = what_.type,
                             .kernel = weights_->kernel,
                             .row_scale = call.row_scale,
                             .scales_at = workspace_.scales_at,
                             .plan = plan(call.a.rows),
                             .steps = send_steps_,
                             .lanes = options_.comm_threads,
                             .transfer = options_.transfer,
                             .in_place = in_place,
                             .by_network = window_->machines().count() > 1,
                             .place = workspace_.ring_offset(rank()),
                             .ring = ring(rank()),
                             .progress_counter = progress_counter(rank()),
                             .stage_counter = stage_counter(),
                             .call = call_,
                             .timeout = options_.timeout};
  const auto send_lane = [&](int lane) {
    Status status = base::guarded([&] {
      return stream::send_shard(send, lane, *lanes_[static_cast<std::size_t>(lane)], *window_,
                                headers);
    });
    return status.ok() ? status : fail(status);
  };
  const int lanes = static_cast<int>(lanes_.size());
  const bool sends = size() > 1 || quantises_;
  Status sent;
  if (sends && sends_inline(send)) {
    for (int lane = 0; sent.ok() && lane < lanes; ++lane) sent = send_lane(lane);
  } else if (sends) {
    lane_team_->start(lanes, send_lane);
  }

  // From here to the join nothing may be thrown: the lanes use what lies on this stack.
  stream::ComputeJob job{.weights = weights_, .output = call.output, .timeout = options_.timeout};
  if (phase == Phase::gather) job.output.c = {};
  Status status = sent;
  if (status.ok()) status = base::guarded([&] { return compute(job, arrivals); });
  if (!status.ok()) status = fail(status);
  sent = lane_team_->join();
  if (status.ok()) status = sent;
  // A rank that brings no rows may still disagree; and no call ends before all have begun it.
  if (status.ok()) status = arrivals.wait_headers(options_.timeout);
  if (status.ok()) advance(arrivals.shards());
  return status;
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
  if (Status status = begin(); !status.ok()) return status;
  const stream::StageRing next = ring(rank());
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    Status status = stream::wait_credit(*window_, stage_counter(), r,
                                        stream::stage_credit(next.first, next.places), call_ + 1,
                                        options_.timeout);
    if (!status.ok()) return status;
  }
  input_for_ = call_ + 1;
  return dense(window_->data(rank()) + workspace_.ring_offset(rank()) + next.offset(0),
               weights_->kernel->type, rows, policy_.k);
}

}  // namespace tandem::op
