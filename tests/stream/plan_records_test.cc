// SPDX-License-Identifier: Apache-2.0
//
// The model against recorded runs (bench/record_plans.py): given the compute-only and the
// comm-only time of a run, it must predict the fused time of the same run. The records are data, so
// no clock is asked. Prints the table that docs/scaling.md shows.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include <gtest/gtest.h>

#include "csv_table.h"
#include "tandem/plan.h"

namespace tandem::stream {
namespace {

/// The machine on which the run took the times it took, all of it from the record.
PlanMachine machine_of(const Record& r, const PlanShape& shape) {
  const auto ranks = static_cast<double>(shape.ranks);
  const double row_bytes = static_cast<double>(shape.k * shape.element_bytes);
  const double shard_bytes = static_cast<double>(shape.rows) * row_bytes;
  const double latency = number(r, "link_latency_s");
  const auto per_node = static_cast<int>(whole(r, "ranks_per_node"));
  PlanMachine machine{.ranks_per_node = per_node,
                      .link = {.latency = std::chrono::nanoseconds(std::llround(latency * 1e9))}};
  machine.chunk_seconds = number(r, "chunk_cost_us") / 1e6;
  machine.byte_seconds = number(r, "byte_cost_ns") / 1e9;
  machine.rank_flops = 2 * ranks * static_cast<double>(shape.rows) * static_cast<double>(shape.k) *
                       static_cast<double>(shape.n) / (number(r, "compute_ms") * 1e-3);
  machine.link.bytes_per_second =
      (ranks - per_node) * shard_bytes / (number(r, "comm_ms") * 1e-3 - latency);
  return machine;
}

TEST(PlanRecords, MeasuredFusedTimesArePredicted) {
  const std::vector<Record> table = read_table(TANDEM_PLAN_RECORDS);
  ASSERT_GE(table.size(), 20U);
  std::vector<double> errors;
  int bound_by_link = 0;
  for (const Record& r : table) {
    const PlanShape shape{.ranks = static_cast<int>(whole(r, "ranks")),
                          .rows = whole(r, "rows"),
                          .k = whole(r, "k"),
                          .n = whole(r, "n"),
                          .element_bytes = whole(r, "element_bytes"),
                          .block_quantum = whole(r, "block_quantum")};
    const auto plan = make_plan(shape, machine_of(r, shape),
                                {.tile_m = whole(r, "tile_m"), .tile_k = whole(r, "tile_k")});
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const double measured = number(r, "pipelined_ms");
    const double error = plan->fused_ms / measured - 1;
    errors.push_back(std::abs(error));
    bound_by_link += plan->bound == Bound::link ? 1 : 0;
    std::printf(
        "| %s | %d | %lld × %s × %s | %lld × %lld | %.2f | %.2f | %.2f | %.2f | %+.1f%% |\n",
        r.at("source").c_str(), shape.ranks, static_cast<long long>(shape.rows * shape.ranks),
        r.at("k").c_str(), r.at("n").c_str(), static_cast<long long>(plan->chunks_per_source),
        static_cast<long long>(plan->chunk_rows), number(r, "compute_ms"), number(r, "comm_ms"),
        measured, plan->fused_ms, 100 * error);
    EXPECT_LT(std::abs(error), 0.25);
  }
  std::sort(errors.begin(), errors.end());
  std::printf("%zu runs: median error %.1f%%, worst %.1f%%\n", errors.size(),
              100 * errors[errors.size() / 2], 100 * errors.back());
  EXPECT_LT(errors[errors.size() / 2], 0.10);
  // The records must be able to refuse a model that knows one regime only.
  EXPECT_GE(bound_by_link, 4);
  EXPECT_LE(bound_by_link, static_cast<int>(table.size()) - 4);
}

}  // namespace
}  // namespace tandem::stream
