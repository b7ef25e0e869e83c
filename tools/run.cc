// SPDX-License-Identifier: Apache-2.0
//
// `tandem run OP`: calls the operator on inputs from files or from a seed, writes each rank's C,
// and verifies it. Start reading at run_rank().
#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

#include "commands.h"
#include "job_options.h"
#include "matrix_memory.h"
#include "progress.h"
#include "ranks.h"
#include "report.h"
#include "report_json.h"
#include "verification.h"

namespace tandem::tool {
namespace {

/// Shares of the progress bar, from rough costs: loading, the calls, and by far the longest where
/// the reference computes all of C.
struct Shares {
  explicit Shares(const Job& job, bool whole, bool golden) {
    constexpr double kLoadRate = 4e8, kCompareRate = 1e9;  // elements a second
    const auto elements = [](std::int64_t rows, std::int64_t cols) {
      return static_cast<double>(rows) * static_cast<double>(cols);
    };
    const double threads = job.compute_threads;
    const double load = (elements(job.max_rows(), job.k) + elements(job.k, job.n)) / kLoadRate;
    const double call = job.operations() / (job.op->multiply_rate * threads);
    double check = elements(job.m, job.n) / kCompareRate;
    if (!whole) check += call + elements(job.m, job.k) / kLoadRate * 3;
    if (whole && !golden) check += job.reference_seconds() / threads;
    const double total = load + call * job.iterations + check;
    loaded = load / total;
    called = 1 - check / total;
  }
  double loaded = 0, called = 0;
};

/// One rank's matrices.
struct RankData {
  std::vector<MatrixMemory> memory;
  std::vector<Matrix> inputs;  ///< A comes last in time, first in place
  std::vector<Input> described;
  MatrixMemory c, accumulators;

  [[nodiscard]] Outputs outputs(const Job& job) const {
    Outputs all{.c = c.view(), .accumulators = std::nullopt};
    if (job.accumulators) all.accumulators = accumulators.view();
    return all;
  }
};

Status read_input(const Job& job, int rank, const Input& input, const Matrix& m) {
  if (job.data_dir.empty()) {
    input.fill(m, input.seed, input.row0);
    return {};
  }
  auto file = open_input(job, rank, input);
  return file.ok() ? file->read(m) : file.status();
}

Status load_but_a(const Job& job, int rank, RankData& data) {
  data.described = job.op->inputs(job, rank);
  for (const Input& input : data.described) {
    data.inputs.push_back({nullptr, input.type, input.rows, input.cols, input.cols});
    // All files are looked at now: a missing one is told of before any work.
    if (!job.data_dir.empty()) {
      if (auto file = open_input(job, rank, input); !file.ok()) return file.status();
    }
    if (data.inputs.size() == 1) continue;
    auto memory = MatrixMemory::create(input.type, input.rows, input.cols);
    if (!memory.ok()) return memory.status();
    data.inputs.back() = memory->view();
    if (Status s = read_input(job, rank, input, memory->view()); !s.ok()) return s;
    data.memory.push_back(std::move(memory).value());
  }
  // Now, not after the work.
  if (auto golden = has_golden(job); !golden.ok()) return golden.status();
  auto c = MatrixMemory::create(job.c_type, job.m, job.n);
  if (!c.ok()) return c.status();
  data.c = std::move(c).value();
  auto accumulators = MatrixMemory::create(DType::s32, job.accumulators ? job.m : 0, job.n);
  if (!accumulators.ok()) return accumulators.status();
  data.accumulators = std::move(accumulators).value();
  return {};
}

/// A, where the operator wants it.
Status load_a(const Job& job, int rank, Runner& runner, RankData& data) {
  Matrix& a = data.inputs.front();
  auto place = runner.place_for_a(a.rows);
  if (!place.ok()) return place.status();
  if (*place) {
    a = **place;
  } else {
    auto memory = MatrixMemory::create(a.type, a.rows, a.cols);
    if (!memory.ok()) return memory.status();
    a = memory->view();
    data.memory.push_back(std::move(memory).value());
  }
  return read_input(job, rank, data.described.front(), a);
}

/// What a call leaves unwritten must not look right.
void poison(const Outputs& outputs) {
  constexpr int kPoison = 0x5a;
  std::memset(outputs.c.data, kPoison, static_cast<std::size_t>(bytes_of(outputs.c)));
  if (outputs.accumulators) {
    std::memset(outputs.accumulators->data, kPoison,
                static_cast<std::size_t>(bytes_of(*outputs.accumulators)));
  }
}

/// Milliseconds of each call, as a maximum over the ranks.
Result<std::vector<double>> call(const World& world, const Job& job, Runner& runner,
                                 const Matrix& a, const Outputs& outputs, const Shares& shares,
                                 Progress& bar) {
  std::vector<double> samples;
  for (int i = 0; i < job.iterations; ++i) {
    if (i + 1 == job.iterations) poison(outputs);
    if (Status s = world.barrier(); !s.ok()) return s;
    const auto start = std::chrono::steady_clock::now();
    if (Status s = runner.run(a, outputs); !s.ok()) return s;
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    auto all = world.all_gather(took.count());
    if (!all.ok()) return all.status();
    samples.push_back(*std::max_element(all->begin(), all->end()));
    bar.update(shares.loaded + (shares.called - shares.loaded) * (i + 1) / job.iterations);
  }
  return samples;
}

Status write_file(const Path& path, const Matrix& m) {
  auto file = MatrixWriter::create(path);
  if (!file.ok()) return file.status();
  if (Status s = file->write(m); !s.ok()) return s;
  return file->commit();
}

Status write_outputs(const Job& job, int rank, const Outputs& outputs) {
  if (job.data_dir.empty()) return {};
  if (Status s = write_file(output_path(job, rank), outputs.c); !s.ok()) return s;
  if (job.file_names == FileNames::catccos) {
    // The same matrix under its name there, without its bytes twice.
    const Path d = job.data_dir / fmt::format("d_gm_rank{}.bin", rank);
    std::error_code error;
    std::filesystem::remove(d, error);
    std::filesystem::create_hard_link(output_path(job, rank), d, error);
    if (error) {
      if (Status s = write_file(d, outputs.c); !s.ok()) return s;
    }
  }
  if (!outputs.accumulators) return {};
  return write_file(accumulators_path(job, rank), *outputs.accumulators);
}

/// What all ranks found.
struct Found {
  std::vector<std::int64_t> different;  ///< elements, of each rank
  [[nodiscard]] bool verified() const {
    return std::all_of(different.begin(), different.end(), [](std::int64_t d) { return d == 0; });
  }
};

std::string output_text(const Job& job, const Prepared& prepared, const Timing& timing,
                        const Verification& verification, const Found& found) {
  if (job.json) return run_json(job, prepared, timing, verification, found.different);
  if (job.quiet && found.verified()) return {};
  std::string text = headline(job) + "\n";
  text += fmt::format("{} of {:.3f} ms (median), kernel {}\n", counted(job.iterations, "call"),
                      timing.median, prepared.kernel);
  if (!job.data_dir.empty()) {
    text +=
        fmt::format("Wrote {} to {}\n", counted(job.ranks * (job.accumulators ? 2 : 1), "output"),
                    job.data_dir.string());
  }
  return text + "Functional run completed. " +
         (found.verified() ? "Verification PASSED: " + verification_text(job, verification) + "\n"
                           : "Verification FAILED.\n");
}

Outcome run_rank(const World& world, const Job& job) {
  Progress bar(!job.quiet && world.rank() == 0, "run");
  RankData data;
  if (auto bad = agree(world, load_but_a(job, world.rank(), data))) return *bad;
  auto golden = has_golden(job);
  const bool compares = golden.ok() && *golden;
  const bool whole =
      job.verify == Verify::automatic ? compares || job.verifies_whole() : job.verifies_whole();
  const Shares shares(job, whole, compares);

  auto runner = job.op->prepare(world, job, data.inputs);
  if (!runner.ok()) return failed(runner.status());
  if (auto bad = agree(world, load_a(job, world.rank(), **runner, data))) return *bad;
  bar.update(shares.loaded);
  const Outputs outputs = data.outputs(job);
  auto samples = call(world, job, **runner, data.inputs.front(), outputs, shares, bar);
  if (!samples.ok()) return failed(samples.status());
  if (auto bad = agree(world, write_outputs(job, world.rank(), outputs))) return *bad;

  const Verified what{job, data.inputs, outputs,
                      [&](double done) { bar.update(shares.called + (1 - shares.called) * done); }};
  auto verification = whole ? verify_whole(what) : verify_sample(world, what, **runner);
  if (auto bad = agree(world, verification.status())) return *bad;
  const Comparison& comparison = verification->comparison;
  auto different = world.all_gather(static_cast<double>(comparison.different));
  if (!different.ok()) return failed(different.status());
  Found found;
  for (double d : *different) found.different.push_back(static_cast<std::int64_t>(d));
  std::string output =
      output_text(job, (*runner)->prepared(), summarize(*samples), *verification, found);
  if (found.verified()) return {.output = std::move(output)};
  // A rank whose own result is right leaves the word to those whose is not.
  return not_verified(comparison.equal() ? std::string()
                                         : fmt::format("verification failed: {} (against {})",
                                                       comparison.text(), verification->against),
                      std::move(output));
}

}  // namespace

Outcome run(const Operator& op, const JobOptions& options,
            const std::vector<std::string>& arguments) {
  auto job = resolve(Verb::run, op, options);
  if (!job.ok()) return failed(job.status());
  return run_ranks(*job, arguments, run_bytes(*job),
                   [&job](const World& world) { return run_rank(world, *job); });
}

}  // namespace tandem::tool
