// SPDX-License-Identifier: Apache-2.0
//
// `tandem bench OP`: tandem::measure() on every rank, and its report.
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "commands.h"
#include "job_options.h"
#include "progress.h"
#include "ranks.h"
#include "report.h"

namespace tandem::tool {
namespace {

Outcome bench_rank(const World& world, const Job& job) {
  Progress bar(!job.quiet && world.rank() == 0, "bench");
  auto measured = job.op->measure(world, job, [&bar](double done) { bar.update(done); });
  if (!measured.ok()) return failed(measured.status());
  auto peaks = world.all_gather(measured->peak_rss_mib);
  if (!peaks.ok()) return failed(peaks.status());
  const double peak = *std::max_element(peaks->begin(), peaks->end());
  const std::string output =
      job.json ? text_of(bench_json(job, *measured, peak)) : bench_text(job, *measured, peak);
  if (measured->verified)
    return {.exit_code = kExitOk, .output = output, .kind = {}, .message = {}};
  return not_verified("verification failed: " + measured->mismatch, output);
}

}  // namespace

void add_bench(CLI::App& app, Invocation& invocation) {
  CLI::App* bench =
      app.add_subcommand("bench", "measure an operator: overlap, speedup, throughput");
  bench->require_subcommand(1);
  bench->footer("Example:\n  tandem bench allgather-gemm -n 2 --m 2048 --k 2048 --n 1024");
  for (const Operator* op : operators()) {
    CLI::App* command = bench->add_subcommand(std::string(op->name), std::string(op->summary));
    command->footer(fmt::format(
        "Measures compute only, communication only, one after the other, and pipelined, in one\n"
        "run; checks the last result bit for bit (exit code 1 when it is wrong).\n\n"
        "Examples:\n"
        "  tandem bench {0} -n 2 --m 2048 --k 2048 --n 1024 --json\n"
        "  tandem bench {0} --rows 100,0,333,7 --transport sim --link 1Gbit/s,50us",
        op->name));
    auto options = std::make_shared<JobOptions>();
    add_job_options(*command, Verb::bench, *op, *options);
    command->callback([&invocation, op, options] {
      invocation.action = [&invocation, op, options]() -> Outcome {
        auto job = resolve(Verb::bench, *op, *options);
        if (!job.ok()) return failed(job.status());
        return run_ranks(*job, invocation.arguments, bench_bytes(*job),
                         [&job](const World& world) { return bench_rank(world, *job); });
      };
    });
  }
}

}  // namespace tandem::tool
