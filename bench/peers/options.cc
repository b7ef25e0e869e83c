// SPDX-License-Identifier: Apache-2.0
//
// Reads the command line and the file of shapes.
#include "bench/peers/options.h"

#include <algorithm>
#include <fstream>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace tandem::bench {
namespace {

// Large; few rows; few rows and weights that fit no L2; one chunk whose weights fit in cache.
constexpr Shape kDefaultShapes[] = {
    {2048, 2048, 1024, 2048}, {64, 2048, 1024, 64}, {128, 4096, 4096, 128}, {32, 1024, 256, 32}};

/// Libraries that pack weights in every call need many rows to make that worth while: with fewer
/// than this another shape would be measured than the one asked for. A multiple of 48, and so of
/// all usual register blocks.
constexpr std::int64_t kFewestScaledRows = 240;
constexpr std::int64_t kScaledStep = 48;

void scale(std::vector<Shape>& shapes, double limit) {
  for (Shape& shape : shapes) {
    if (limit <= 0 || shape.operations() <= limit || shape.m <= kFewestScaledRows) continue;
    const double per_row = shape.operations() / static_cast<double>(shape.m);
    const auto affordable = static_cast<std::int64_t>(limit / per_row);
    shape.m =
        std::min(shape.m, std::max(kFewestScaledRows, affordable / kScaledStep * kScaledStep));
  }
}

std::vector<DType> to_types(const std::vector<std::string>& names) {
  std::vector<DType> types;
  for (const std::string& name : names) {
    const auto type = parse_dtype(name);
    if (!type || *type == DType::s32) {
      throw CLI::ValidationError("--types",
                                 fmt::format("'{}' is none of f16, bf16, f32, s8", name));
    }
    types.push_back(*type);
  }
  return types;
}

}  // namespace

std::vector<Shape> read_shapes(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw CLI::ValidationError("--shapes", fmt::format("cannot open '{}'", path));
  std::vector<Shape> shapes;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    line.erase(std::remove(line.begin(), line.end(), '\r'), line.end());
    if (line.empty() || (number == 1 && line == "M,K,N")) continue;
    std::string text = line;
    std::replace(text.begin(), text.end(), ',', 'x');
    const auto shape = parse_shape(text);
    if (!shape) {
      throw CLI::ValidationError(
          "--shapes", fmt::format("{}:{}: '{}' is not M,K,N, each at least 1", path, number, line));
    }
    shapes.push_back(*shape);
  }
  return shapes;
}

bool Options::has_section(const std::string& name) const {
  return std::ranges::find(sections, name) != sections.end();
}

int parse(int argc, char** argv, Options& options) {
  CLI::App app(
      "Measures Tandem's multiply beside other libraries and the machine's ceilings, in one\n"
      "process and in turns. Every result is checked before it is timed. Ratios are medians of\n"
      "ratios within rounds; trust them more than the rates.");
  std::vector<std::string> shapes, types{"f16", "bf16", "f32", "s8"};
  std::string shapes_file, clock = "wall";

  app.add_option("--section", options.sections,
                 "What to measure: shapes (the tables of rates), floors (1 to 16 rows against "
                 "memory bandwidth), packing, scaling (threads). Default: all; with --shape or "
                 "--shapes: shapes")
      ->delimiter(',')
      ->check(CLI::IsMember({"shapes", "floors", "packing", "scaling"}));
  app.add_option("--shape", shapes, "A shape MxKxN; may be given several times");
  app.add_option("--shapes", shapes_file, "A file of shapes: CSV with the header M,K,N");
  app.add_option("--scale-ops", options.scale_ops,
                 "Shapes with more operations (2MKN) than this are run with fewer rows, but at "
                 "least 240; the table says which");
  app.add_option("--time-budget", options.time_budget,
                 "Seconds for all shapes together. Shapes get fewer rounds (at least 3) to keep it")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--types", types, "Element types of A and B")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--peers", options.peers, "Only these peers, as in tandem,openblas")
      ->delimiter(',');
  app.add_option("--kernel", options.kernel,
                 "Tandem's kernel target. avx2 holds the other libraries to AVX2 as well")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Threads of every peer")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "Turns that each peer takes per shape")
      ->check(CLI::Range(3, 1000))
      ->capture_default_str();
  app.add_option("--min-sample-ms", options.min_sample_ms,
                 "Short multiplies are repeated within a turn until it takes this long")
      ->check(CLI::Range(0.1, 1000.0))
      ->capture_default_str();
  app.add_option("--clock", clock,
                 "wall, or cpu: the thread's CPU time, which leaves out what other processes took "
                 "(one thread only)")
      ->check(CLI::IsMember({"wall", "cpu"}))
      ->capture_default_str();
  app.add_option("--cblas", options.libraries,
                 "One more library with a CBLAS interface, NAME=PATH; may be given several times");
  app.add_option("--json", options.json, "Write all figures to this file, '-' for standard output");

  try {
    app.parse(argc, argv);
    options.types = to_types(types);
    options.cpu_clock = clock == "cpu";
    if (options.cpu_clock && options.threads > 1) {
      throw CLI::ValidationError("--clock", "cpu measures one thread; use wall");
    }
    for (const std::string& text : shapes) {
      const auto shape = parse_shape(text);
      if (!shape) throw CLI::ValidationError("--shape", fmt::format("'{}' is not MxKxN", text));
      options.shapes.push_back(*shape);
    }
    if (!shapes_file.empty()) {
      const std::vector<Shape> read = read_shapes(shapes_file);
      options.shapes.insert(options.shapes.end(), read.begin(), read.end());
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  if (options.sections.empty()) {
    options.sections = {"shapes"};
    if (options.shapes.empty()) options.sections = {"shapes", "floors", "packing", "scaling"};
  }
  if (options.shapes.empty()) {
    options.shapes.assign(std::begin(kDefaultShapes), std::end(kDefaultShapes));
  }
  scale(options.shapes, options.scale_ops);
  return -1;
}

}  // namespace tandem::bench
