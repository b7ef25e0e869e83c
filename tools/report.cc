// SPDX-License-Identifier: Apache-2.0
//
// The report of bench keeps the seed's words (Compute-only, Sequential, Pipelined, Speedup, Overlap
// eff), one to a line, so that scripts made for it find them here.
#include "report.h"

#include <algorithm>

#include <fmt/format.h>

#include "mpi_ranks.h"

namespace tandem::tool {
namespace {

std::string row(const std::string& label, const Timing& t) {
  return fmt::format("  {:<16}{:>10.3f} ms   min {:.3f}  max {:.3f}\n", label + ":", t.median,
                     t.min, t.max);
}

std::string row(const std::string& label, const std::string& value) {
  return fmt::format("  {:<16}{}\n", label + ":", value);
}

}  // namespace

std::string headline(const Job& job) {
  return fmt::format("{} ({}): {}, M = {}, K = {}, N = {}, {} -> {}", job.op->title,
                     name(job.transport.kind), counted(job.ranks, "rank"), job.m, job.k, job.n,
                     name(job.a_type), name(job.c_type));
}

std::string verification_text(const Job& job, const Verification& v) {
  const std::string infinite =
      v.infinite > 0 ? fmt::format(" ({} of them infinite, as they must be)", v.infinite) : "";
  if (v.whole) {
    return fmt::format("{} elements on each rank equal {} bit for bit{}.", v.comparison.elements,
                       v.against, infinite);
  }
  std::string text =
      fmt::format("on each rank {} and {} drawn at random equal the reference bit for bit",
                  counted(v.rows, "row"), counted(v.columns, "column"));
  if (!v.every_element) return text + "; the others were not checked (--verify whole does).";
  return text + fmt::format(
                    "; all {} x {} elements{} are what follows from sums that pass the "
                    "product check (Freivalds, modulo 2^64; docs/numerics.md).",
                    job.m, job.n, infinite);
}

std::string bench_text(const Job& job, const Measurement& m, double peak_rss_mib) {
  std::string text = headline(job) + "\n";
  text += row("Compute-only", m.compute_only_ms);
  text += row("Comm-only", m.comm_only_ms);
  text += row("Sequential", m.sequential_ms);
  text += row("Pipelined", m.pipelined_ms);
  text += row("Speedup", fmt::format("{:>10.3f} x    sequential / pipelined", m.speedup));
  text +=
      row("Overlap eff", fmt::format("{:>10.1f} %    of the shorter of compute and communication",
                                     100 * m.overlap_efficiency));
  text += row("Pipelined/max",
              fmt::format("{:>10.3f}      1 is a perfect overlap", m.pipelined_over_max));
  text += row("Exposed comm", fmt::format("{:>10.3f} ms", m.exposed_comm_ms));
  if (job.transport.kind == TransportKind::mpi) {
    text += row("Comm CPU",
                fmt::format("{:>10.3f} ms   of a rank's cores, for communication", m.comm_cpu_ms));
  }
  text += row("Throughput",
              fmt::format("{:>10.1f} {} per rank, {:.1f} in all", m.gflops_per_rank,
                          job.op->s8_weights ? "GOP/s" : "GFLOP/s", m.gflops_per_rank * job.ranks));
  std::string medium = "shared memory";
  if (job.transport.kind == TransportKind::sim) {
    medium = "a link of " + to_string(job.transport.link);
  } else if (job.transport.kind == TransportKind::mpi) {
    medium = mpi_description();
  }
  text += row("Kernel", fmt::format("{}, {} and {} per rank", m.kernel,
                                    counted(job.compute_threads, "compute thread"),
                                    counted(job.comm_threads, "lane")));
  text += row("Transfer",
              fmt::format("{} over {}, {} of a shard, tiles of {} x {}", name(job.transfer), medium,
                          counted(m.chunks_per_source, "chunk"), m.tile_m, m.tile_k));
  text += row("Peak memory",
              fmt::format("{:.1f} MiB {}", peak_rss_mib, job.thread_ranks ? "in all" : "per rank"));
  text += row("Verification", m.verified ? fmt::format("PASSED, {} of {} rows compared bit for bit",
                                                       m.verified_rows, job.m)
                                         : "FAILED, " + m.mismatch);
  return text;
}

Timing summarize(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  if (n == 0) return {};
  return {(samples[(n - 1) / 2] + samples[n / 2]) / 2, samples.front(), samples.back()};
}

std::string counted(std::int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace tandem::tool
