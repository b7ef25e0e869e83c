// SPDX-License-Identifier: Apache-2.0
//
// The command line of bench/peers. parse() fills Options in and checks it; `--help` prints what
// each option is for.
#pragma once

#include <string>
#include <vector>

#include "bench/peers/problem.h"

namespace tandem::bench {

struct Options {
  std::vector<std::string> sections;
  std::vector<Shape> shapes;
  double scale_ops = 0;    ///< 0: no shape is scaled
  double time_budget = 0;  ///< seconds for the section of shapes; 0: no limit
  std::vector<DType> types;
  std::vector<std::string> peers;  ///< empty: all
  std::string kernel = "auto";
  int threads = 1;
  int rounds = 9;
  double min_sample_ms = 5;
  bool cpu_clock = false;
  std::vector<std::string> libraries;
  std::string json;  ///< file, "-" for standard output, empty for none

  [[nodiscard]] bool has_section(const std::string& name) const;
};

/// The shapes of a CSV file with the header M,K,N. Throws CLI::ValidationError with the line.
[[nodiscard]] std::vector<Shape> read_shapes(const std::string& path);

/// Returns the exit code to leave with, or -1 to go on.
int parse(int argc, char** argv, Options& options);

}  // namespace tandem::bench
