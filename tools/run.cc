// SPDX-License-Identifier: Apache-2.0
//
// `tandem run OP`: calls the operator on inputs from files or from a seed, writes each rank's C,
// and verifies it. Start reading at run_rank().
#include <algorithm>
#include <chrono>

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

// Shares of the progress bar, for the default shape on one core each: loading is quick, a call
// takes about as long as its verification.
constexpr double kLoaded = 0.05, kCalled = 0.5;

/// One rank's matrices.
struct RankData {
  std::vector<MatrixMemory> inputs;
  MatrixMemory c;

  [[nodiscard]] std::vector<Matrix> views() const {
    std::vector<Matrix> all;
    for (const MatrixMemory& input : inputs) all.push_back(input.view());
    return all;
  }
};

Status load(const Job& job, int rank, RankData& data) {
  for (const Input& input : job.op->inputs(job, rank)) {
    auto memory = MatrixMemory::create(input.type, input.rows, input.cols);
    if (!memory.ok()) return memory.status();
    const Matrix m = memory->view();
    data.inputs.push_back(std::move(memory).value());
    if (job.data_dir.empty()) {
      input.fill(m, input.seed, input.row0);
      continue;
    }
    auto file = open_input(job, rank, input);
    if (!file.ok()) return file.status();
    if (Status s = file->read(m); !s.ok()) return s;
  }
  // Now, not after the work.
  if (auto golden = has_golden(job); !golden.ok()) return golden.status();
  auto c = MatrixMemory::create(job.c_type, job.m, job.n);
  if (!c.ok()) return c.status();
  data.c = std::move(c).value();
  return {};
}

/// Milliseconds of each call, as a maximum over the ranks.
Result<std::vector<double>> call(const World& world, const Job& job, Runner& runner,
                                 const Matrix& c, Progress& bar) {
  std::vector<double> samples;
  for (int i = 0; i < job.iterations; ++i) {
    if (Status s = world.barrier(); !s.ok()) return s;
    const auto start = std::chrono::steady_clock::now();
    if (Status s = runner.run(c); !s.ok()) return s;
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    auto all = world.all_gather(took.count());
    if (!all.ok()) return all.status();
    samples.push_back(*std::max_element(all->begin(), all->end()));
    bar.update(kLoaded + (kCalled - kLoaded) * (i + 1) / job.iterations);
  }
  return samples;
}

Status write_output(const Job& job, int rank, const Matrix& c) {
  if (job.data_dir.empty()) return {};
  auto file = MatrixWriter::create(output_path(job, rank));
  if (!file.ok()) return file.status();
  if (Status s = file->write(c); !s.ok()) return s;
  return file->commit();
}

std::string output_text(const Job& job, const Prepared& prepared, const Timing& timing,
                        const Verification& verification, bool verified) {
  if (job.json) return run_json(job, prepared, timing, verified, verification.against);
  if (job.quiet && verified) return {};
  std::string text = headline(job) + "\n";
  text += fmt::format("{} of {:.3f} ms (median), kernel {}\n", counted(job.iterations, "call"),
                      timing.median, prepared.kernel);
  if (!job.data_dir.empty()) {
    text += fmt::format("Wrote {} to {}\n", counted(job.ranks, "output"), job.data_dir.string());
  }
  return text + (verified
                     ? fmt::format("Functional run completed. Verification PASSED: {} elements on "
                                   "each rank equal {} bit for bit.\n",
                                   verification.comparison.elements, verification.against)
                     : "Functional run completed. Verification FAILED.\n");
}

Outcome run_rank(const World& world, const Job& job) {
  Progress bar(!job.quiet && world.rank() == 0, "run");
  RankData data;
  if (auto bad = agree(world, load(job, world.rank(), data))) return *bad;
  bar.update(kLoaded);
  const std::vector<Matrix> inputs = data.views();
  const Matrix c = data.c.view();

  auto runner = job.op->prepare(world, job, inputs);
  if (!runner.ok()) return failed(runner.status());
  auto samples = call(world, job, **runner, c, bar);
  if (!samples.ok()) return failed(samples.status());
  if (auto bad = agree(world, write_output(job, world.rank(), c))) return *bad;

  auto verification = verify(job, data.c, inputs,
                             [&bar](double done) { bar.update(kCalled + (1 - kCalled) * done); });
  if (auto bad = agree(world, verification.status())) return *bad;
  const Comparison& comparison = verification->comparison;
  auto different = world.all_gather(static_cast<double>(comparison.different));
  if (!different.ok()) return failed(different.status());
  const bool verified =
      std::all_of(different->begin(), different->end(), [](double d) { return d == 0; });
  std::string output =
      output_text(job, (*runner)->prepared(), summarize(*samples), *verification, verified);
  if (verified) return {.output = std::move(output)};
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
