// SPDX-License-Identifier: Apache-2.0
//
// `tandem run OP`: calls the operator on inputs from files or from a seed, writes each rank's C,
// and verifies it. Start reading at run_rank().
#include <algorithm>
#include <chrono>
#include <memory>

#include <fmt/format.h>

#include "commands.h"
#include "job_options.h"
#include "matrix_memory.h"
#include "progress.h"
#include "ranks.h"
#include "report.h"
#include "tandem/system.h"
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
    auto file = MatrixReader::open(input_path(job, rank, input.name), bytes_of(m),
                                   shape_text(input.rows, input.cols, input.type));
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
  if (job.json) {
    Json json = run_json(job, prepared);
    json["iterations"] = job.iterations;
    json["run_ms"] = timing_json(timing);
    json["verified"] = verified;
    json["verified_against"] = verification.against;
    json["data_dir"] = job.data_dir.empty() ? Json() : Json(job.data_dir.string());
    json["version"] = version();
    return text_of(json);
  }
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
  std::vector<Matrix> inputs = data.views();
  const Matrix c = data.c.view();

  auto runner = job.op->prepare(world, job, inputs);
  if (!runner.ok()) return failed(runner.status());
  auto samples = call(world, job, **runner, c, bar);
  if (!samples.ok()) return failed(samples.status());
  if (auto bad = agree(world, write_output(job, world.rank(), c))) return *bad;

  inputs.erase(inputs.begin());
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
  if (verified)
    return {.exit_code = kExitOk, .output = std::move(output), .kind = {}, .message = {}};
  // A rank whose own result is right leaves the word to those whose is not.
  return not_verified(comparison.equal() ? std::string()
                                         : fmt::format("verification failed: {} (against {})",
                                                       comparison.text(), verification->against),
                      std::move(output));
}

}  // namespace

void add_run(CLI::App& app, Invocation& invocation) {
  CLI::App* run = app.add_subcommand("run", "run an operator on files or on random data, verified");
  run->require_subcommand(1);
  run->footer("Example:\n  tandem run allgather-gemm -n 2 --data-dir out");
  for (const Operator* op : operators()) {
    CLI::App* command = run->add_subcommand(std::string(op->name), std::string(op->summary));
    command->footer(fmt::format(
        "With --data-dir, reads pe_<rank>_a.bin and so on as `tandem gen` wrote them, writes\n"
        "output_rank<rank>.bin, and compares with golden.bin where there is one. Sizes and types\n"
        "that are left out come from the folder's manifest.json. Without --data-dir, compares\n"
        "with the reference. A difference is exit code 1; an input file that is missing or of\n"
        "the wrong size is 2; a file that cannot be written is 3.\n\n"
        "Examples:\n"
        "  tandem run {0} --data-dir out\n"
        "  tandem run {0} -n 3 --m 1000 --k 777 --n 131 --iters 5",
        op->name));
    auto options = std::make_shared<JobOptions>();
    add_job_options(*command, Verb::run, *op, *options);
    command->callback([&invocation, op, options] {
      invocation.action = [&invocation, op, options]() -> Outcome {
        auto job = resolve(Verb::run, *op, *options);
        if (!job.ok()) return failed(job.status());
        return run_ranks(*job, invocation.arguments, run_bytes(*job),
                         [&job](const World& world) { return run_rank(world, *job); });
      };
    });
  }
}

}  // namespace tandem::tool
