// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of WorkspacePlan, and the checks that keep it within 64 bits.
#include "op/workspace.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "op/validate.h"
#include "stream/call_header.h"

namespace tandem {
namespace op {
namespace {

constexpr int kMaxThreads = 1024;
/// The seed's commInterval: row blocks of a stage.
constexpr std::int64_t kCommInterval = 3;
/// Rows of a row block when the caller names no tile: about what the multiply takes at a time.
constexpr std::int64_t kStageTileRows = 128;
constexpr std::size_t kAlign = 64;

constexpr std::size_t align(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

}  // namespace

WorkspacePlan::WorkspacePlan(int ranks, const Travelling& what, const StreamOptions& options) {
  switch (options.workspace) {
    case Workspace::full:
      stage_rows = options.max_rows;
      stages = 2;
      break;
    case Workspace::staged:
      stage_rows = options.stage_rows > 0
                       ? options.stage_rows
                       : kCommInterval * (options.tile_m > 0 ? options.tile_m : kStageTileRows);
      stage_rows = std::min(stage_rows, options.max_rows);
      stages = options.stages;
      break;
    case Workspace::direct:
      stage_rows = options.max_rows;
      stages = 1;
      break;
  }
  const auto rows = static_cast<std::size_t>(stage_rows);
  const std::size_t data = align(rows * static_cast<std::size_t>(what.k) * size_of(what.type));
  scales_at = what.row_scales ? data : 0;
  place_bytes = data + (what.row_scales ? align(rows * sizeof(float)) : 0);
  header_bytes = align(static_cast<std::size_t>(ranks) * sizeof(stream::CallHeader));
  rings_at = stream::kHeaderSlots * header_bytes;
  ring_per_source = options.transfer == Transfer::push;
  total = ring_offset(ring_per_source ? ranks : 1) + (ring_per_source ? 0 : ring_bytes());
}

std::size_t WorkspacePlan::header_offset(std::uint64_t call) const {
  return static_cast<std::size_t>(call % stream::kHeaderSlots) * header_bytes;
}

Status check_stream_options(const StreamOptions& options, std::int64_t k, int ranks) {
  constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kYear = 1000LL * 60 * 60 * 24 * 365;
  Status status =
      first_failure(check_range("max_rows", options.max_rows, 1, kNoLimit),
                    check_range("compute_threads", options.compute_threads, 1, kMaxThreads),
                    check_range("comm_threads", options.comm_threads, 1, kMaxLanes),
                    check_range("stage_rows", options.stage_rows, 0, kNoLimit),
                    check_range("stages", options.stages, 1, kMaxStages),
                    check_range("tile_m", options.tile_m, 0, kNoLimit / kCommInterval),
                    check_range("tile_k", options.tile_k, 0, kNoLimit),
                    check_range("timeout (ms)", options.timeout.count(), 0, kYear));
  if (!status.ok()) return status;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(options.max_rows, k, &elements) ||
      __builtin_mul_overflow(elements, std::int64_t{8} * kMaxStages * ranks, &bytes)) {
    return {StatusCode::kInvalidArgument,
            fmt::format("max_rows is {} and K is {}: the window would exceed 2^63 bytes; lower "
                        "max_rows to what a call can bring",
                        options.max_rows, k)};
  }
  if (options.workspace == Workspace::direct && options.transfer == Transfer::push) {
    return {StatusCode::kInvalidArgument,
            "workspace direct needs transfer pull: with push the rows are copied to every rank"};
  }
  const bool sim = options.transport.kind == TransportKind::sim;
  if (sim && !(options.transport.link.bytes_per_second > 0)) {
    return {StatusCode::kInvalidArgument,
            fmt::format("link bandwidth is {} bytes/s; it must be above 0",
                        options.transport.link.bytes_per_second)};
  }
  return {};
}

}  // namespace op

Result<std::int64_t> workspace_bytes(int ranks, std::int64_t k, DType a_type, bool row_scales,
                                     const StreamOptions& options) {
  constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  Status status = op::first_failure(op::check_range("ranks", ranks, 1, kMaxRanks),
                                    op::check_range("K", k, 1, kNoLimit));
  if (status.ok()) status = op::check_stream_options(options, k, ranks);
  if (!status.ok()) return status;
  return static_cast<std::int64_t>(
      op::WorkspacePlan(ranks, {.k = k, .type = a_type, .row_scales = row_scales}, options).total);
}

}  // namespace tandem
