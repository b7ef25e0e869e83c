// SPDX-License-Identifier: Apache-2.0
//
// The options of gen, run and bench. They are kept as given ("nothing" is a value), since what is
// left out comes from the launched world, from the manifest of the data folder, or from a default;
// resolve() is the only place that decides which.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "job.h"
#include "operators.h"

namespace tandem::tool {

inline constexpr int kMostThreads = 1024;

enum class Verb { gen, run, bench };

struct JobOptions {
  std::optional<int> ranks;
  std::optional<std::int64_t> m, k, n;
  std::optional<std::string> rows, a_type, c_type, b_layout;
  std::optional<std::uint64_t> seed;
  std::optional<std::string> fill, file_names;
  std::optional<bool> bias, row_scales, saturate;
  std::optional<double> scale_size;
  bool accumulators = false;
  std::string verify = "auto";
  std::string data_dir;

  std::string kernel = "auto", transfer = "pull", transport = "shm", ranks_as = "process";
  std::optional<std::string> link;
  std::string workspace = "full";
  std::int64_t stage_rows = 0;
  int stages = 2;
  std::optional<std::string> devices, time_budget;
  std::optional<int> compute_threads;
  int comm_threads = 1;
  std::int64_t tile_m = 0, tile_k = 0;
  int iterations = 0, warmup = 0;
  std::optional<std::int64_t> timeout_ms;
  bool json = false, quiet = false, reuse = false;
};

/// Puts the job together. Errors: kInvalidArgument, naming the value, its bound and the remedy.
[[nodiscard]] Result<Job> resolve(Verb verb, const Operator& op, const JobOptions& options);

}  // namespace tandem::tool
