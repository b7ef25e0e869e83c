// SPDX-License-Identifier: Apache-2.0
//
// `tandem bench OP`: tandem::measure() on every rank, and its report.
#include <algorithm>

#include "commands.h"
#include "job_options.h"
#include "progress.h"
#include "ranks.h"
#include "report.h"
#include "report_json.h"

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
      job.json ? bench_json(job, *measured, peak) : bench_text(job, *measured, peak);
  if (measured->verified) return {.output = output};
  return not_verified("verification failed: " + measured->mismatch, output);
}

}  // namespace

Outcome bench(const Operator& op, const JobOptions& options,
              const std::vector<std::string>& arguments) {
  auto job = resolve(Verb::bench, op, options);
  if (!job.ok()) return failed(job.status());
  return run_ranks(*job, arguments, bench_bytes(*job),
                   [&job](const World& world) { return bench_rank(world, *job); });
}

}  // namespace tandem::tool
