// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic over a job: shards, and the memory it takes. Sizes in bytes are computed as double:
// absurd shapes must come out as absurd sizes, not as overflow.
#include "job.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "operators.h"
#include "tandem/system.h"
#include "tandem/world.h"

namespace tandem::tool {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kWholeSeconds = 60;

double matrix(std::int64_t rows, std::int64_t cols, DType type) {
  return static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(size_of(type));
}

}  // namespace

std::int64_t Job::row0(int rank) const {
  return std::accumulate(rows.begin(), rows.begin() + rank, std::int64_t{0});
}

std::int64_t Job::max_rows() const {
  return std::max<std::int64_t>(1, *std::max_element(rows.begin(), rows.end()));
}

double Job::operations() const {
  return 2 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
}

DType Job::b_type() const { return op->s8_weights ? DType::s8 : a_type; }

DType Job::travelling_type() const { return b_type(); }

double Job::reference_seconds() const { return operations() / op->reference_rate; }

bool Job::verifies_whole() const {
  if (verify != Verify::automatic) return verify == Verify::whole;
  return reference_seconds() <= kWholeSeconds;
}

StreamOptions Job::stream_options() const {
  return {.max_rows = max_rows(),
          .transfer = transfer,
          .transport = transport,
          .compute_threads = compute_threads,
          .comm_threads = comm_threads,
          .workspace = workspace,
          .stage_rows = stage_rows,
          .stages = stages,
          .tile_m = tile_m,
          .tile_k = tile_k};
}

std::vector<std::int64_t> split_rows(std::int64_t m, int ranks) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(ranks), m / ranks);
  for (std::int64_t r = 0; r < m % ranks; ++r) ++rows[static_cast<std::size_t>(r)];
  return rows;
}

Result<std::optional<int>> launched_size() {
  const char* rank = std::getenv("TANDEM_RANK");
  if (rank == nullptr || *rank == '\0') return std::optional<int>();
  const char* text = std::getenv("TANDEM_SIZE");
  const std::string_view size = text == nullptr ? "" : text;
  int value = 0;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), value);
  if (error != std::errc() || end != size.data() + size.size() || value < 1 || value > kMaxRanks) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("environment variable TANDEM_SIZE is '{}' while TANDEM_RANK is '{}'; "
                              "expected an integer in 1..{}: start ranks with `tandem launch`, or "
                              "unset both",
                              size, rank, kMaxRanks));
  }
  return std::optional<int>(value);
}

Status check_memory(const Job& job, double bytes, int processes) {
  const SystemInfo system = system_info();
  const auto refuse = [&](double needed, std::string_view whose, double limit) {
    return Status(
        StatusCode::kOutOfMemory,
        fmt::format("M = {}, K = {}, N = {} on {} {} at least {:.0f} MiB of memory, but {} {:.0f} "
                    "MiB; use smaller shapes or fewer ranks, or free memory",
                    job.m, job.k, job.n, job.ranks, job.ranks == 1 ? "rank needs" : "ranks need",
                    needed / kMiB, whose, limit / kMiB));
  };
  const auto available = static_cast<double>(system.memory_available);
  const auto container = static_cast<double>(system.container_memory_limit);
  if (container > 0 && container < available && bytes > container) {
    return refuse(bytes, fmt::format("the container {} is limited to", system.container),
                  container);
  }
  if (available > 0 && bytes > available) return refuse(bytes, "there are", available);
  // Each process has a limit of its own.
  const auto process = static_cast<double>(system.process_memory_limit);
  if (process > 0 && bytes > process * processes) {
    return refuse(bytes,
                  fmt::format("{} limits {} to", system.process_memory_limit_name,
                              processes == 1 ? "this process" : "their processes"),
                  process * processes);
  }
  return {};
}

double run_bytes(const Job& job) {
  const auto window = workspace_bytes(job.ranks, job.k, job.travelling_type(), job.row_scales,
                                      job.stream_options());
  const bool in_window = job.workspace == Workspace::direct;
  const double each = 2 * matrix(job.k, job.n, job.b_type()) + matrix(job.m, job.n, job.c_type) +
                      (job.accumulators ? matrix(job.m, job.n, DType::s32) : 0) +
                      (window.ok() ? static_cast<double>(*window) : 0);
  return job.ranks * each + (in_window ? 0 : matrix(job.m, job.k, job.a_type));
}

double bench_bytes(const Job& job) {
  return run_bytes(job) + job.ranks * matrix(job.m, job.k, job.travelling_type());
}

double gen_bytes(const Job& job) {
  return matrix(job.max_rows(), job.k, job.a_type) + matrix(job.k, job.n, job.b_type()) +
         (job.verifies_whole() ? matrix(job.max_rows(), job.n, job.c_type) : 0);
}

}  // namespace tandem::tool
