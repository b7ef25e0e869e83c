// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of PipelineModel. Start reading at fused().
#include "stream/pipeline_model.h"

#include <algorithm>

#include "stream/row_blocks.h"

namespace tandem::stream {
namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

}  // namespace

PipelineModel::PipelineModel(const PlanShape& shape, const PlanMachine& machine,
                             const ChunkPlan& chunks, const Route& route)
    : shape_(shape), chunks_(chunks), route_(route), mesh_(machine.wiring == Wiring::mesh) {
  const std::int64_t per_node = std::min(machine.ranks_per_node, shape.ranks);
  machines_ = (shape.ranks + per_node - 1) / per_node;
  local_ = per_node;
  remote_ = machines_ > 1 ? shape.ranks - per_node : 0;

  const double memory = machine.memory_bytes_per_second / real(local_);
  row_work_ = 2 * real(shape.k) * real(shape.n) / machine.rank_flops;
  weight_pass_ = real(shape.k) * real(shape.n) * real(shape.element_bytes) / memory;
  const double shard_bytes = real(shape.rows) * real(shape.k) * real(shape.element_bytes);
  shard_copy_ = 2 * shard_bytes / memory;

  const double copies = route.once_per_machine ? 1 : real(local_);
  const double wire = copies * shard_bytes / machine.link.bytes_per_second;
  // A sender that needs longer for a chunk than the wire does is what the wire waits for.
  shard_link_ = std::max(wire, copies * real(chunks.chunks()) * machine.chunk_seconds);
  // On a mesh all sources bring a row in the time of one.
  const std::int64_t side_by_side = mesh_ ? std::max<std::int64_t>(1, remote_) : 1;
  const double row_link = wire / (real(shape.rows) * real(side_by_side));
  const std::int64_t share =
      remote_ == 0 ? shape.block_rows
                   : rows_to_share({.work = row_work_, .pass = weight_pass_, .link = row_link},
                                   shape.block_rows, shape.block_quantum);
  shared_ = std::max<std::int64_t>(1, share / shape.rows);
  step_ = block_step(shape.rows * shared_, shape.block_rows, shape.block_quantum);

  latency_ = std::chrono::duration<double>(machine.link.latency).count();
  chunk_cpu_ = real(chunks.chunks()) * machine.chunk_seconds;
  byte_cpu_ = shard_bytes * machine.byte_seconds;
}

double PipelineModel::block_work(std::int64_t rows) const {
  return std::max(real(rows) * row_work_, weight_pass_);
}

double PipelineModel::run_work(std::int64_t rows) const {
  const std::int64_t rest = rows % step_;
  return real(rows / step_) * block_work(step_) + (rest > 0 ? block_work(rest) : 0);
}

double PipelineModel::peers_work(std::int64_t peers) const {
  const std::int64_t left = peers % shared_;
  return real(peers / shared_) * run_work(shared_ * shape_.rows) +
         (left > 0 ? run_work(left * shape_.rows) : 0);
}

double PipelineModel::compute() const {
  return run_work(shape_.rows) + peers_work(local_ - 1) + peers_work(remote_);
}

double PipelineModel::arithmetic() const {
  return real(shape_.ranks) * real(shape_.rows) * row_work_;
}

double PipelineModel::wire_bytes() const {
  const double shard_bytes = real(shape_.rows) * real(shape_.k) * real(shape_.element_bytes);
  return real(remote_) * shard_bytes * (route_.once_per_machine ? 1 : real(local_));
}

double PipelineModel::link() const {
  return remote_ == 0 ? 0 : mesh_ ? shard_link_ : real(remote_) * shard_link_;
}

double PipelineModel::comm_cpu() const {
  // The owner copies its shard to where its machine's ranks read it; with push, to each of them.
  double cpu = shape_.ranks == 1 ? 0 : shard_copy_;
  if (route_.transfer == Transfer::push) cpu *= real(std::max<std::int64_t>(1, local_ - 1));
  // The work of a machine's ingress and egress is spread over its ranks.
  const double shards = real(remote_) / (route_.once_per_machine ? real(local_) : 1);
  return cpu + shards * (chunk_cpu_ + byte_cpu_);
}

double PipelineModel::comm() const {
  if (shape_.ranks == 1) return shard_copy_;
  // Into the windows, and out of them; on a link only what comes with the last chunk is late.
  const double copies = shard_copy_ * (1 + real(shape_.ranks));
  if (remote_ == 0) return copies;
  const std::int64_t last = std::max(chunks_.chunk(0).rows, std::min(step_, shape_.rows));
  const double tail = shard_copy_ * real(last) / real(shape_.rows);
  return std::max(link() + latency_ + tail, copies);
}

double PipelineModel::after_arrivals(std::int64_t shards, double stretch) const {
  // The last of them is what the blocks wait for; those before it are complete by then.
  const std::int64_t rows = shards * shape_.rows;
  const double before = mesh_ ? 0 : real(shards - 1) * shard_link_;
  const Chunk first = chunks_.chunk(0);
  double latest = 0;
  for (std::int64_t row0 = 0; row0 < shape_.rows; row0 += first.rows) {
    const std::int64_t chunk_rows = std::min(first.rows, shape_.rows - row0);
    // The first block that cannot end without this chunk, and all after it.
    const std::int64_t block0 = shards > 1 ? 0 : row0 / step_ * step_;
    const double block = block_work(std::min(step_, rows - block0));
    const double rest = run_work(rows - block0);
    for (std::int64_t k0 = 0; k0 < shape_.k; k0 += first.cols) {
      const std::int64_t k_end = std::min(k0 + first.cols, shape_.k);
      const double elements = real(row0) * real(shape_.k) + real(chunk_rows) * real(k_end);
      const double arrival = before + shard_link_ * elements / real(shape_.rows) / real(shape_.k);
      const double done = block * real(k0) / real(shape_.k);
      latest = std::max(latest, arrival + (rest - done) * stretch);
    }
  }
  return latest + latency_;
}

// With all work w and arrivals a, a rank ends at max over blocks b of (a_b + the work from b on),
// or when it has done everything without a wait. Peers follow each other at an even pace, in
// arrivals and in work, so the maximum lies at the first of them or at the last.
double PipelineModel::fused() const {
  const double stretch = 1 + comm_cpu() / compute();
  const double all = compute() * stretch;
  if (remote_ == 0) return all;
  const std::int64_t full = remote_ / shared_, left = remote_ % shared_;
  const double pace = mesh_ ? 0 : real(shared_) * shard_link_;
  const double left_work = left > 0 ? run_work(left * shape_.rows) * stretch : 0;
  double end = all;
  if (full > 0) {
    const double run = run_work(shared_ * shape_.rows) * stretch;
    const double first = after_arrivals(shared_, stretch);
    end = std::max(end, first + real(full - 1) * run + left_work);
    end = std::max(end, real(full - 1) * pace + first + left_work);
  }
  if (left > 0) end = std::max(end, real(full) * pace + after_arrivals(left, stretch));
  return end;
}

}  // namespace tandem::stream
