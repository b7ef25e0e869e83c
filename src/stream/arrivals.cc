// SPDX-License-Identifier: Apache-2.0
//
// Arrivals: a shard has arrived up to some chunk when each lane's counter has reached the number of
// those chunks that travel on it.
#include "stream/arrivals.h"

#include <algorithm>

namespace tandem::stream {
namespace {

std::uint32_t target(const Shard& shard, std::int64_t needed, int lane, int lanes) {
  return shard.base[static_cast<std::size_t>(lane)] +
         static_cast<std::uint32_t>(on_lane(needed, lane, lanes));
}

}  // namespace

const Shard& Arrivals::shard_of(std::int64_t row) const {
  std::size_t r = 0;
  while (row >= shards_[r].row0 + shards_[r].rows()) ++r;
  return shards_[r];
}

const std::byte* Arrivals::row(std::int64_t row) const {
  const Shard& shard = shard_of(row);
  const std::int64_t i = row - shard.row0;
  if (shard.local) return shard.data + static_cast<std::size_t>(i) * shard.pitch;
  const std::int64_t stage = i / shard.plan.stage_rows();
  return shard.data + shard.ring.offset(stage) +
         static_cast<std::size_t>(i - stage * shard.plan.stage_rows()) * shard.pitch;
}

void Arrivals::rows(std::int64_t row0, std::span<const std::byte*> to) const {
  for (std::size_t i = 0; i < to.size();) {
    const std::int64_t first = row0 + static_cast<std::int64_t>(i);
    const Shard& shard = shard_of(first);
    // As far as rows lie one pitch apart: to the end of the shard, or of its stage.
    std::int64_t end = shard.rows() - (first - shard.row0);
    if (!shard.local) {
      end = std::min(end, shard.plan.stage_rows() - (first - shard.row0) % shard.plan.stage_rows());
    }
    const std::byte* at = row(first);
    for (; end > 0 && i < to.size(); --end, ++i, at += shard.pitch) to[i] = at;
  }
}

const float* Arrivals::row_scale(std::int64_t row) const {
  const Shard& shard = shard_of(row);
  if (!shard.scaled) return nullptr;
  const std::int64_t i = row - shard.row0;
  if (shard.local) return shard.scales + i;
  const std::int64_t stage = i / shard.plan.stage_rows();
  const std::byte* place = shard.data + shard.ring.offset(stage);
  return reinterpret_cast<const float*>(place + shard.scales_at) +
         (i - stage * shard.plan.stage_rows());
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

bool Arrivals::ready(std::int64_t row0, std::int64_t row_end, std::int64_t k_end) const {
  for (std::size_t r = 0; r < shards_.size(); ++r) {
    const Shard& shard = shards_[r];
    const std::int64_t end = std::min(row_end - shard.row0, shard.rows());
    if (end <= 0 || shard.row0 + shard.rows() <= row0) continue;
    if (!arrived(static_cast<int>(r), end, k_end)) return false;
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

Status Arrivals::wait(std::int64_t row0, std::int64_t row_end, std::int64_t k_end,
                      std::chrono::milliseconds timeout) const {
  if (ready(row0, row_end, k_end)) return {};
  const auto awaited = [&](int rank) -> std::optional<WaitDetail> {
    const Shard& shard = shards_[static_cast<std::size_t>(rank)];
    const std::int64_t end = std::min(row_end - shard.row0, shard.rows());
    if (end <= 0 || shard.row0 + shard.rows() <= row0) return std::nullopt;
    return missing(rank, end, k_end);
  };
  return window_->wait([&] { return ready(row0, row_end, k_end); }, awaited,
                       platform::Deadline::after(timeout));
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
