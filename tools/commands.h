// SPDX-License-Identifier: Apache-2.0
//
// The sub-commands, one file each. command_line.cc parses their options and calls them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job_options.h"
#include "operators.h"
#include "outcome.h"
#include "plan_options.h"

namespace tandem::tool {

struct CheckOptions {
  std::string output, golden, type;
  std::int64_t cols = 0;  ///< 0 = elements are numbered through
  bool json = false, quiet = false;
};

struct LaunchOptions {
  int ranks = 2;
  std::string bind = "none";
  std::vector<std::string> program;
};

/// `self_check`: of every kernel that this CPU runs; exit code 1 when one is wrong.
[[nodiscard]] Outcome info(bool json, bool self_check);
/// A line for each kernel that is not used, since it failed its self-check; as a rule none.
[[nodiscard]] std::string kernel_warnings();
[[nodiscard]] Outcome gen(const Operator& op, const JobOptions& options);
/// `arguments` are this process's own, without its name: process ranks are started with them.
[[nodiscard]] Outcome run(const Operator& op, const JobOptions& options,
                          const std::vector<std::string>& arguments);
[[nodiscard]] Outcome bench(const Operator& op, const JobOptions& options,
                            const std::vector<std::string>& arguments);
/// What `bench --shapes` takes beyond a job's options.
struct ListOptions {
  std::string shapes;  ///< a file; empty = one shape, by --m, --k and --n
  std::string out;     ///< results go to <out>.csv and <out>.json
  bool m_per_rank = false;
};
/// As bench(), for every shape of a list.
[[nodiscard]] Outcome bench_list(const Operator& op, const JobOptions& options,
                                 const ListOptions& list,
                                 const std::vector<std::string>& arguments);

struct TrialOptions {
  std::string devices, shapes, output = "output";
  std::string workspace = "auto", fill = "random", verify = "auto", time_budget = "20s";
  double scale_ops = 0;  ///< 0 = no shape is scaled down
  bool accumulators = false, quiet = false;
};
[[nodiscard]] Outcome trial(const Operator& op, const TrialOptions& options);
[[nodiscard]] Outcome check(const CheckOptions& options);
[[nodiscard]] Outcome plan(const PlanOptions& options);
[[nodiscard]] Outcome launch_program(const LaunchOptions& options);

}  // namespace tandem::tool
