// SPDX-License-Identifier: Apache-2.0
//
// Arrivals: a shard has arrived up to some chunk when each lane's counter has reached the number of
// those chunks that travel on it.
#include "stream/arrivals.h"

#include <algorithm>
#include <functional>

namespace tandem::stream {
namespace {

std::uint32_t target(const Shard& shard, std::int64_t needed, int lane, int lanes) {
  return shard.base[static_cast<std::size_t>(lane)] +
         static_cast<std::uint32_t>(on_lane(needed, lane, lanes));
}

}  // namespace

const std::byte* Shard::place(std::int64_t row) const {
  return data + ring.offset(row / plan.stage_rows());
}

const std::byte* Shard::address(std::int64_t row) const {
  if (local) return data + static_cast<std::size_t>(row) * pitch;
  return place(row) + static_cast<std::size_t>(row % plan.stage_rows()) * pitch;
}

const float* Shard::scale(std::int64_t row) const {
  if (local) return scales + row;
  return reinterpret_cast<const float*>(place(row) + scales_at) + row % plan.stage_rows();
}

void Arrivals::rows(const RowBlock& block, std::span<const std::byte*> to) const {
  auto next = to.begin();
  for (int r = block.source; r < block.source + block.sources; ++r) {
    const Shard& shard = shards_[static_cast<std::size_t>(r)];
    const Rows part = shard.part(block);
    if (part.empty()) continue;
    // All in one stage, so that they lie one pitch apart: no block goes past the end of one.
    const std::byte* at = shard.address(part.begin);
    for (std::int64_t i = part.begin; i < part.end; ++i, at += shard.pitch) *next++ = at;
  }
}

bool Arrivals::row_scales(const RowBlock& block, std::span<float> to) const {
  auto next = to.begin();
  for (int r = block.source; r < block.source + block.sources; ++r) {
    const Shard& shard = shards_[static_cast<std::size_t>(r)];
    if (!shard.scaled) return false;
    const Rows part = shard.part(block);
    if (!part.empty()) next = std::copy_n(shard.scale(part.begin), part.end - part.begin, next);
  }
  return true;
}

bool Arrivals::arrived(int rank, std::int64_t rows, std::int64_t k_end) const {
  const Shard& shard = shards_[static_cast<std::size_t>(rank)];
  if (shard.local) return true;
  if (!headers_->verified(rank)) return false;
  const std::int64_t needed = shard.plan.needed(rows, k_end);
  for (int lane = 0; lane < lanes_; ++lane) {
    if (!window_->test(shard.counter + lane, target(shard, needed, lane, lanes_))) return false;
  }
  return true;
}

bool Arrivals::ready(const RowBlock& block, std::int64_t k_end) const {
  for (int r = block.source; r < block.source + block.sources; ++r) {
    const Rows part = shards_[static_cast<std::size_t>(r)].part(block);
    if (!part.empty() && !arrived(r, part.end, k_end)) return false;
  }
  return true;
}

std::optional<WaitDetail> Arrivals::missing(int rank, std::int64_t rows, std::int64_t k_end) const {
  const Shard& shard = shards_[static_cast<std::size_t>(rank)];
  if (shard.local || arrived(rank, rows, k_end)) return std::nullopt;
  if (!headers_->verified(rank)) return headers_->detail(rank);
  const std::int64_t needed = shard.plan.needed(rows, k_end);
  for (int lane = 0; lane < lanes_; ++lane) {
    const std::uint32_t expected = target(shard, needed, lane, lanes_);
    const std::uint32_t seen = window_->read(shard.counter + lane);
    if (symm::reached(seen, expected)) continue;
    const std::uint32_t here = seen - shard.base[static_cast<std::size_t>(lane)];
    return WaitDetail{.rank = rank,
                      .call = call_,
                      .chunk = static_cast<std::int64_t>(here) * lanes_ + lane,
                      .expected = expected,
                      .seen = seen};
  }
  return std::nullopt;
}

Status Arrivals::wait(const RowBlock& block, std::int64_t k_end,
                      std::chrono::milliseconds timeout) const {
  if (ready(block, k_end)) return {};
  const auto is_ready = [&] { return ready(block, k_end); };
  const auto awaited = [&](int rank) -> std::optional<WaitDetail> {
    if (rank < block.source || rank >= block.source + block.sources) return std::nullopt;
    const Rows part = shards_[static_cast<std::size_t>(rank)].part(block);
    if (part.empty()) return std::nullopt;
    return missing(rank, part.end, k_end);
  };
  // By reference: a std::function that holds more than two words would allocate.
  return window_->wait(std::cref(is_ready), std::cref(awaited), platform::Deadline::after(timeout));
}

Status Arrivals::wait_headers(std::chrono::milliseconds timeout) const {
  if (window_ == nullptr) return {};
  const auto missing_header = [&](int rank) -> std::optional<WaitDetail> {
    if (rank == window_->rank() || headers_->verified(rank)) return std::nullopt;
    return headers_->detail(rank);
  };
  const auto all = [&] {
    for (int r = 0; r < window_->size(); ++r) {
      if (r != window_->rank() && !headers_->verified(r)) return false;
    }
    return true;
  };
  return window_->wait(all, missing_header, platform::Deadline::after(timeout));
}

}  // namespace tandem::stream
