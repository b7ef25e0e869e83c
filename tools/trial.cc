// SPDX-License-Identifier: Apache-2.0
//
// `tandem trial OP`: a list of shapes on given devices, each generated, run, verified and measured.
// Every step is one of the other commands, called with arguments that a user could type; what it
// answers is read from its JSON. Prints as it goes, since a long list takes minutes. Start reading
// at trial(), at the end.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "command_line.h"
#include "commands.h"
#include "csv.h"
#include "option_text.h"
#include "report.h"
#include "shape_list.h"
#include "standard_streams.h"
#include "tandem/launch.h"

namespace tandem::tool {
namespace {

using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

// A call of a large shape takes minutes on a busy machine, and a rank may wait for all of it.
constexpr const char* kTimeoutMs = "3600000";
// Windows of whole shards up to here, per rank; stages beyond.
constexpr double kFullWindowBytes = 64e6;
// The extra case whose scales are large on purpose: most of its f16 results are infinite.
constexpr Shape kOverflowShape{64, 1024, 512};
constexpr const char* kOverflowScale = "40";

struct Case {
  Shape shape;  ///< M is rows of every rank
  Shape full;   ///< before it was scaled down
  bool overflow = false;
  [[nodiscard]] std::string text() const {
    std::string text = shape.text();
    if (shape != full) text += fmt::format(" (M {})", full.m);
    return overflow ? text + " overflow" : text;
  }
};

/// What the steps of a case gave; figures are absent where a step failed.
struct CaseResult {
  std::string verdict = "ERROR";
  std::string message;
  int exit_code = kExitFailure;
  std::optional<Json> run, bench;
};

double number(const std::optional<Json>& json, const char* key) {
  if (!json || !json->contains(key)) return 0;
  const Json& value = json->at(key);
  return value.is_object() ? value.value("median", 0.0) : value.get<double>();
}

class Trial {
 public:
  Trial(const Operator& op, const TrialOptions& options, std::size_t ranks)
      : op_(op), options_(options), ranks_(static_cast<std::int64_t>(ranks)) {}

  Outcome run(const std::vector<Case>& cases);

 private:
  [[nodiscard]] double operations(const Shape& s) const {
    return 2.0 * static_cast<double>(ranks_) * static_cast<double>(s.m) * static_cast<double>(s.k) *
           static_cast<double>(s.n);
  }
  /// What a case takes, about: the calls of run and bench and of its check, or the golden result,
  /// and the elements that are made, written and read.
  [[nodiscard]] double seconds(const Case& c) const {
    constexpr double kCalls = 5, kElementRate = 1e8;
    const double call = operations(c.shape) / op_.multiply_rate;
    const double golden = c.shape == c.full ? operations(c.shape) / op_.reference_rate : 0;
    const auto elements =
        static_cast<double>(ranks_ * c.shape.m) * static_cast<double>(c.shape.k + c.shape.n);
    return 1 + kCalls * call + std::min(golden, 60.0) + elements / kElementRate;
  }
  /// Whether the steps of a shape as large as this one take a sample.
  [[nodiscard]] std::string verify(const Case& c) const;
  [[nodiscard]] std::string workspace(const Case& c) const;
  [[nodiscard]] Arguments shape_arguments(const Case& c) const;

  Outcome step(const char* what, Arguments arguments, std::optional<Json>& answer);
  /// Empty unless the user ended it.
  std::optional<Outcome> run_case(const Case& c, CaseResult& result);
  void print_ranks(const Case& c, CaseResult& result);
  [[nodiscard]] std::string table(const std::vector<Case>& cases,
                                  const std::vector<CaseResult>& results) const;
  Status write_csv(const std::vector<Case>& cases, const std::vector<CaseResult>& results) const;
  void say(const std::string& text) const {
    if (!options_.quiet) (void)tool::say(stdout, text + "\n");  // print() sees what went wrong
  }

  const Operator& op_;
  const TrialOptions& options_;
  const std::int64_t ranks_;
};

std::string Trial::verify(const Case& c) const {
  if (options_.verify != "auto" || c.shape == c.full) return options_.verify;
  Job full;
  full.op = &op_;
  full.m = c.full.m * ranks_;
  full.k = c.full.k;
  full.n = c.full.n;
  return full.verifies_whole() ? "whole" : "sample";
}

std::string Trial::workspace(const Case& c) const {
  if (options_.workspace != "auto") return options_.workspace;
  const double bytes = 2.0 * static_cast<double>(c.full.m) * static_cast<double>(c.full.k) *
                       static_cast<double>(size_of(op_.a_types.front()));
  return bytes <= kFullWindowBytes ? "full" : "staged";
}

Arguments Trial::shape_arguments(const Case& c) const {
  const std::vector<std::int64_t> rows(static_cast<std::size_t>(ranks_), c.shape.m);
  return {"--rows", fmt::format("{}", fmt::join(rows, ",")),
          "--k",    std::to_string(c.shape.k),
          "--n",    std::to_string(c.shape.n)};
}

Outcome Trial::step(const char* what, Arguments arguments, std::optional<Json>& answer) {
  arguments.insert(arguments.begin(), {what, std::string(op_.name)});
  arguments.emplace_back("--json");
  if (options_.quiet) arguments.emplace_back("--quiet");
  const auto start = std::chrono::steady_clock::now();
  const Invocation invocation = parse_command_line(arguments);
  const Outcome outcome = invocation.action ? invocation.action() : invocation.outcome;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (!outcome.output.empty()) {
    answer = Json::parse(outcome.output, nullptr, false);
    if (answer->is_discarded()) answer.reset();
  }
  say(fmt::format("  {:<5} {:7.1f} s{}", what, took.count(),
                  outcome.exit_code == kExitOk ? "" : "   failed"));
  return outcome;
}

void Trial::print_ranks(const Case& c, CaseResult& result) {
  const Json& run = *result.run;
  const auto different = run.at("different").get<std::vector<std::int64_t>>();
  bool pass = std::all_of(different.begin(), different.end(), [](auto d) { return d == 0; });
  const bool whole = run.at("verification").at("whole").get<bool>();
  say(fmt::format("  checked: {}",
                  whole ? fmt::format("all {} x {} elements, bit for bit",
                                      run.at("m").get<std::int64_t>(), c.shape.n)
                        : fmt::format("{} rows and {} columns drawn on each rank, bit for bit{}",
                                      run.at("verification").at("rows").get<std::int64_t>(),
                                      run.at("verification").at("columns").get<std::int64_t>(),
                                      run.at("verification").at("every_element").get<bool>()
                                          ? "; all others by the product check"
                                          : "; no others")));
  if (const auto infinite = run.at("infinite").get<std::int64_t>(); infinite > 0) {
    say(fmt::format("  {} elements are infinite, as they must be", infinite));
  } else if (c.overflow) {
    say("  no element is infinite: this case was to overflow");
    pass = false;
  }
  for (std::size_t rank = 0; rank < different.size(); ++rank) {
    say(fmt::format("  rank {}: {} errors, {}", rank, different[rank],
                    different[rank] == 0 && pass ? "PASS" : "FAIL"));
  }
  result.verdict = pass ? "PASS" : "FAIL";
  result.exit_code = pass ? kExitOk : kExitNotVerified;
}

std::optional<Outcome> Trial::run_case(const Case& c, CaseResult& result) {
  const auto stopped = [&result](const Outcome& outcome) {
    result.message = outcome.message;
    result.exit_code = outcome.exit_code;
    return outcome.exit_code > 128;
  };
  std::optional<Json> generated;
  Arguments gen = shape_arguments(c);
  gen.insert(gen.end(),
             {"--data-dir", options_.output, "--fill", options_.fill, "--verify", verify(c)});
  if (op_.s8_weights) gen.insert(gen.end(), {"--file-names", "catccos"});
  if (c.overflow) gen.insert(gen.end(), {"--scale-size", kOverflowScale});
  Outcome outcome = step("gen", gen, generated);
  if (outcome.exit_code != kExitOk) {
    return stopped(outcome) ? std::optional(outcome) : std::nullopt;
  }

  const Arguments engine{"--devices",  options_.devices, "--workspace",
                         workspace(c), "--timeout",      kTimeoutMs};
  Arguments run{"--data-dir", options_.output, "--verify", verify(c)};
  run.insert(run.end(), engine.begin(), engine.end());
  if (options_.accumulators) run.emplace_back("--accumulators");
  outcome = step("run", run, result.run);
  if (outcome.exit_code != kExitOk) {
    if (stopped(outcome)) return outcome;
    if (!result.run || !result.run->contains("different")) return std::nullopt;
  }
  print_ranks(c, result);
  if (c.overflow) return std::nullopt;

  Arguments bench = shape_arguments(c);
  bench.insert(bench.end(), engine.begin(), engine.end());
  bench.insert(bench.end(), {"--time-budget", options_.time_budget});
  const int verified = result.exit_code;
  outcome = step("bench", bench, result.bench);
  if (outcome.exit_code != kExitOk) {
    result.verdict = outcome.exit_code == kExitNotVerified ? "FAIL" : "ERROR";
    return stopped(outcome) ? std::optional(outcome) : std::nullopt;
  }
  result.exit_code = verified;
  return std::nullopt;
}

std::string Trial::table(const std::vector<Case>& cases,
                         const std::vector<CaseResult>& results) const {
  std::string text = fmt::format("{:<34}{:>12}{:>12}{:>15}{:>11}{:>10}  result\n",
                                 "M per rank x K x N", "total ms", "matmul ms", "allgather ms",
                                 "mask ratio", op_.s8_weights ? "GOP/s" : "GFLOP/s");
  for (std::size_t i = 0; i < results.size(); ++i) {
    const CaseResult& r = results[i];
    const auto figure = [&r](const char* key, int width, int digits) {
      return r.bench ? fmt::format("{:>{}.{}f}", number(r.bench, key), width, digits)
                     : fmt::format("{:>{}}", "-", width);
    };
    text += fmt::format("{:<34}{}{}{}{}{}  {}\n", cases[i].text(), figure("pipelined_ms", 12, 3),
                        figure("compute_only_ms", 12, 3), figure("comm_only_ms", 15, 3),
                        figure("overlap_efficiency", 11, 3), figure("gflops_per_rank", 10, 1),
                        r.verdict);
  }
  return text;
}

Status Trial::write_csv(const std::vector<Case>& cases,
                        const std::vector<CaseResult>& results) const {
  auto file = MatrixWriter::create(Path(options_.output) / "results.csv", "--output");
  if (!file.ok()) return file.status();
  std::string text =
      "m_per_rank,k,n,full_m_per_rank,ranks,case,result,errors,whole,total_ms,matmul_ms,"
      "allgather_ms,mask_ratio,gops_per_rank,peak_rss_mib\n";
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Case& c = cases[i];
    const CaseResult& r = results[i];
    std::vector<std::string> fields{std::to_string(c.shape.m),
                                    std::to_string(c.shape.k),
                                    std::to_string(c.shape.n),
                                    std::to_string(c.full.m),
                                    std::to_string(ranks_),
                                    c.overflow ? "overflow" : "list",
                                    r.verdict};
    const bool ran = r.run && r.run->contains("different");
    fields.push_back(
        ran ? fmt::format("{}",
                          fmt::join(r.run->at("different").get<std::vector<std::int64_t>>(), ";"))
            : "");
    fields.emplace_back(ran && r.run->at("verification").at("whole").get<bool>() ? "true"
                                                                                 : "false");
    for (const char* key : {"pipelined_ms", "compute_only_ms", "comm_only_ms", "overlap_efficiency",
                            "gflops_per_rank", "peak_rss_mib"}) {
      fields.push_back(r.bench ? fmt::format("{}", number(r.bench, key)) : "");
    }
    text += join_csv(fields) + "\n";
  }
  if (Status s = file->write(text); !s.ok()) return s;
  return file->commit();
}

Outcome Trial::run(const std::vector<Case>& cases) {
  double all = 0, done = 0;
  for (const Case& c : cases) all += seconds(c);
  const auto start = std::chrono::steady_clock::now();

  std::vector<CaseResult> results;
  Outcome outcome;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    // What was done tells how fast this machine is, once it was more than a moment.
    const double left = (all - done) * (done > 5 ? elapsed.count() / done : 1);
    say(fmt::format("[{}/{}] {} on {}, workspace {}{}", i + 1, cases.size(), cases[i].text(),
                    counted(ranks_, "rank"), workspace(cases[i]),
                    all > 10 ? fmt::format(", about {:.0f} s left", left) : ""));
    CaseResult& result = results.emplace_back();
    if (auto ended = run_case(cases[i], result)) return *ended;
    done += seconds(cases[i]);
    if (!result.message.empty()) {
      outcome.message +=
          (outcome.message.empty() ? "" : "\n") + cases[i].text() + ": " + result.message;
    }
    outcome.exit_code = std::max(outcome.exit_code, result.exit_code);
    std::error_code error;
    if (!std::filesystem::is_directory(options_.output, error)) continue;
    if (Status s = write_csv(cases, results); !s.ok()) return failed(s);
  }
  outcome.output = table(cases, results);
  return outcome;
}

/// Two lists in one folder would read each other's files. The lock ends with the file.
Result<File> lock_folder(const Path& folder) {
  if (Status s = make_folder(folder); !s.ok()) return s;
  const Path path = folder / ".lock";
  File file(std::fopen(path.c_str(), "a"));
  if (file && lockf(fileno(file.get()), F_TLOCK, 0) == 0) return file;
  const bool taken = file && (errno == EACCES || errno == EAGAIN);
  return Status(StatusCode::kIo, fmt::format("{}: {}; take another --output", path.string(),
                                             taken ? "another trial is at work in this folder"
                                                   : std::strerror(errno)));
}

}  // namespace

Outcome trial(const Operator& op, const TrialOptions& options) {
  auto devices = parse_device_list(options.devices);
  if (!devices.ok()) return failed(devices.status());
  if (Status s = check_devices(*devices); !s.ok()) {
    return failed(in_context("--devices " + options.devices, s));
  }
  auto shapes = read_shapes(options.shapes);
  if (!shapes.ok()) return failed(shapes.status());

  std::vector<Case> cases;
  // First, so that the files that stay are those of the list.
  if (op.s8_weights && options.fill == "random") {
    cases.push_back({kOverflowShape, kOverflowShape, true});
  }
  for (const Shape& shape : *shapes) {
    Case c{shape, shape};
    const double per_row = 2.0 * static_cast<double>(devices->size()) *
                           static_cast<double>(shape.k) * static_cast<double>(shape.n);
    const double most = options.scale_ops > 0 ? options.scale_ops / per_row : 1e18;
    if (static_cast<double>(shape.m) > most) {
      c.shape.m = std::max<std::int64_t>(1, static_cast<std::int64_t>(most));
    }
    cases.push_back(c);
  }
  auto lock = lock_folder(options.output);
  if (!lock.ok()) return failed(lock.status());
  // Results of an earlier list must not pass as this one's.
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(options.output, error)) {
    const std::string name = entry.path().filename().string();
    for (const char* stem : {"output_rank", "d_gm_rank", "c_gm_rank", "x1_gm_rank"}) {
      std::error_code kept;
      if (name.rfind(stem, 0) == 0) std::filesystem::remove(entry.path(), kept);
    }
  }
  return Trial(op, options, devices->size()).run(cases);
}

}  // namespace tandem::tool
