// SPDX-License-Identifier: Apache-2.0
//
// `tandem plan`: the model of tandem/plan.h over several numbers of ranks, at the rate of this
// machine or one that is given. Start reading at plan(), at the end.
#include <algorithm>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "commands.h"
#include "option_text.h"
#include "plan_options.h"
#include "report.h"
#include "report_json.h"
#include "tandem/measure.h"
#include "tandem/system.h"
#include "tandem/world.h"

namespace tandem::tool {
namespace {

constexpr std::int64_t kStandardM = 4096;

Status refuse(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }

struct Rate {
  double flops = 0;
  std::string source;
};

/// A short measurement at the plan's K and N, as far as they matter to the rate: as many thread
/// ranks as a machine of the plan has, so that what they share is shared.
Result<Rate> measure_rate(const PlanOptions& o, DType type, std::int64_t n) {
  constexpr std::int64_t kEnough = 2048;  // larger B leaves the caches anyhow
  const int fit = std::max(1, default_compute_threads() / o.compute_threads);
  const int ranks = static_cast<int>(std::min<std::int64_t>({o.ranks_per_node, fit, kMaxRanks}));
  auto worlds = World::threads(ranks);
  if (!worlds.ok()) return worlds.status();

  MeasureSpec spec{.rows = std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 192 / ranks),
                   .k = std::min(o.k, kEnough),
                   .n = std::min(n, kEnough),
                   .a_type = type,
                   .iterations = 5,
                   .warmup = 2};
  if (type == DType::s8) spec.activations = ActivationKind::s8;
  spec.options.compute_threads = o.compute_threads;
  std::vector<Result<Measurement>> results(static_cast<std::size_t>(ranks),
                                           Status(StatusCode::kInternal, "not run"));
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < results.size(); ++r) {
    threads.emplace_back([&, r] { results[r] = measure((*worlds)[r], spec); });
  }
  for (std::thread& thread : threads) thread.join();
  if (!results[0].ok()) return in_context("measuring the rate", results[0].status());

  const double operations = 2.0 * static_cast<double>(spec.rows[0] * ranks) *
                            static_cast<double>(spec.k) * static_cast<double>(spec.n);
  return Rate{operations / (results[0]->compute_only_ms.median * 1e-3),
              fmt::format("measured here: {}, {} of {}", results[0]->kernel, counted(ranks, "rank"),
                          counted(o.compute_threads, "thread"))};
}

Result<PlanShape> shape_of(const PlanOptions& o, int ranks, DType type) {
  PlanShape shape{
      .ranks = ranks, .k = o.k, .element_bytes = static_cast<std::int64_t>(size_of(type))};
  const std::int64_t m = o.m.value_or(kStandardM);
  shape.rows = o.rows_per_rank.value_or((m + ranks - 1) / ranks);
  shape.n = o.n_total ? (*o.n_total + ranks - 1) / ranks : o.n.value_or(1024);
  for (const KernelInfo& kernel : system_info().kernels) {
    if (!kernel.chosen || kernel.type != type) continue;
    shape.block_quantum = kernel.mr;
    shape.block_rows = std::max<std::int64_t>(1, shape.block_rows / kernel.mr) * kernel.mr;
  }
  return shape;
}

Result<PlanReport> make_report(const PlanOptions& o) {
  const DType type = parse_dtype(o.a_type).value_or(DType::f16);
  auto counts = parse_integers(o.ranks, 1, kMostPlannedRanks);
  if (!counts.ok()) return counts.status();
  std::sort(counts->begin(), counts->end());
  counts->erase(std::unique(counts->begin(), counts->end()), counts->end());
  auto link = parse_link(o.link);
  if (!link.ok()) return link.status();

  const std::int64_t m = o.m.value_or(kStandardM), most = counts->back();
  if (!o.rows_per_rank && m < most) {
    return refuse(
        fmt::format("--m {} leaves some of {} ranks without a row: give at least {}, or "
                    "--rows-per-rank, or fewer --ranks",
                    m, most, most));
  }

  PlanReport report{.a_type = o.a_type, .rate_source = "given"};
  for (std::int64_t ranks : *counts) {
    auto shape = shape_of(o, static_cast<int>(ranks), type);
    if (!shape.ok()) return shape.status();
    report.points.push_back({*shape, {}});
  }
  report.machine = {.ranks_per_node = static_cast<int>(o.ranks_per_node),
                    .link = *link,
                    .wiring = o.wiring == "mesh" ? Wiring::mesh : Wiring::shared,
                    .memory_bytes_per_second = o.memory_gb * 1e9,
                    .chunk_seconds = o.chunk_us / 1e6,
                    .byte_seconds = o.byte_ns / 1e9};
  if (o.gflops) {
    report.machine.rank_flops = *o.gflops * 1e9;
  } else {
    auto rate = measure_rate(o, type, report.points.front().shape.n);
    if (!rate.ok()) return rate.status();
    report.machine.rank_flops = rate->flops;
    report.rate_source = rate->source;
  }
  for (PlanPoint& point : report.points) {
    auto plan = make_plan(point.shape, report.machine, {.tile_m = o.tile_m, .tile_k = o.tile_k});
    if (!plan.ok()) return plan.status();
    point.plan = *plan;
  }
  return report;
}

}  // namespace

Outcome plan(const PlanOptions& options) {
  const auto report = make_report(options);
  if (!report.ok()) return failed(report.status());
  return {.output = options.json ? plan_json(*report) : plan_text(*report)};
}

}  // namespace tandem::tool
