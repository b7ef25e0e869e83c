// SPDX-License-Identifier: Apache-2.0
//
// The options of `tandem plan`, as given, and what the command makes of them: one row of the table
// for each number of ranks. command_line.cc fills the first, plan.cc makes the second, plan_text.cc
// and report_json.cc say it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tandem/plan.h"

namespace tandem::tool {

inline constexpr std::int64_t kMostPlannedRanks = 1'000'000;

struct PlanOptions {
  std::string ranks = "2,4,8,16,32,64,128,256,512,1024,2048,4096";
  std::optional<std::int64_t> m, rows_per_rank, n, n_total;
  std::int64_t k = 2048;
  std::string a_type = "f16", link = "1Gbit/s,50us", wiring = "shared";
  std::int64_t ranks_per_node = 1;
  std::optional<double> gflops;
  int compute_threads = 1;
  double memory_gb = 30, chunk_us = 45, byte_ns = 0;
  std::int64_t tile_m = 0, tile_k = 0;
  bool json = false;
};

struct PlanPoint {
  PlanShape shape;
  Plan plan;
};

struct PlanReport {
  std::vector<PlanPoint> points;  ///< by number of ranks
  PlanMachine machine;
  std::string a_type;
  std::string rate_source;  ///< "given", or how it was measured
};

/// The table, then what bounds the plan, what would change that, and why these chunks.
[[nodiscard]] std::string plan_text(const PlanReport& report);
/// The sentences below the table, one each.
[[nodiscard]] std::vector<std::string> plan_words(const PlanReport& report);

}  // namespace tandem::tool
