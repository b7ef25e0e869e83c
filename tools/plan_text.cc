// SPDX-License-Identifier: Apache-2.0
//
// A plan in words. Rows of the table that have the same bound share a sentence. Start reading at
// plan_words().
#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "plan_options.h"
#include "report.h"

namespace tandem::tool {
namespace {

using Points = std::span<const PlanPoint>;

/// "3.1" or "3.1 to 4.7", rounded to three digits.
std::string range(double a, double b) {
  const std::string low = fmt::format("{:.3g}", std::min(a, b));
  const std::string high = fmt::format("{:.3g}", std::max(a, b));
  // Large numbers are easier read without an exponent.
  const auto plain = [](const std::string& text, double value) {
    return text.find('e') == std::string::npos ? text : fmt::format("{:.0f}", value);
  };
  return low == high ? plain(low, std::min(a, b))
                     : plain(low, std::min(a, b)) + " to " + plain(high, std::max(a, b));
}

template <class Value>
std::string range(Points points, Value value) {
  double low = value(points.front().plan), high = low;
  for (const PlanPoint& p : points) {
    low = std::min(low, value(p.plan));
    high = std::max(high, value(p.plan));
  }
  return range(low, high);
}

std::string ranks_of(Points points) {
  const int first = points.front().shape.ranks, last = points.back().shape.ranks;
  return points.size() == 1 ? counted(first, "rank") : fmt::format("{} to {} ranks", first, last);
}

std::string bytes_text(double bytes) {
  for (const char* unit : {"B", "KiB", "MiB", "GiB"}) {
    if (bytes < 1024) return fmt::format("{:.4g} {}", bytes, unit);
    bytes /= 1024;
  }
  return fmt::format("{:.4g} TiB", bytes);
}

std::string gbits(double bytes_per_second) {
  return fmt::format("{:.3g} Gbit/s", bytes_per_second * 8e-9);
}

/// "440 at 2 ranks and 879 at 512".
std::string need_n(Points points) {
  const auto at = [](const PlanPoint& p) {
    return fmt::format("{:.0f}", std::ceil(p.plan.compute_bound_from_n));
  };
  if (points.size() == 1) return at(points.front());
  return fmt::format("{} at {} ranks and {} at {}", at(points.front()), points.front().shape.ranks,
                     at(points.back()), points.back().shape.ranks);
}

/// What would have to change until compute takes as long as communication.
std::string remedy(Points points) {
  std::string text = fmt::format("Compute-bound from N = {}", need_n(points));
  const PlanPoint& last = points.back();
  if (last.plan.compute_bound_from_bandwidth > 0) {
    text += fmt::format(", or with a link of {}", gbits(last.plan.compute_bound_from_bandwidth));
    if (points.size() > 1) text += fmt::format(" at {} ranks", last.shape.ranks);
  }
  return text + ".";
}

std::string bound_words(Points points, const PlanMachine& machine) {
  const auto compute = range(points, [](const Plan& p) { return p.compute_ms; });
  const auto comm = range(points, [](const Plan& p) { return p.comm_ms; });
  const auto exposed = range(points, [](const Plan& p) { return p.exposed_comm_ms; });
  const std::string who = ranks_of(points);
  const Plan& last = points.back().plan;
  switch (last.bound) {
    case Bound::compute:
      return fmt::format(
          "{}: compute-bound. The multiply takes {} ms; of communication, {} ms, "
          "{} ms show. {}",
          who, compute, comm, exposed,
          last.machines == 1 ? std::string("More threads or a faster kernel would help.")
                             : fmt::format("It stays so down to N = {}.", need_n(points)));
    case Bound::weights:
      return fmt::format(
          "{}: bound by reading the weights once for each row block, of few rows: "
          "the multiply takes {} ms, communication {} ms. More rows in a call, or "
          "memory bandwidth, would help.",
          who, compute, comm);
    case Bound::latency:
      return fmt::format(
          "{}: bound by the latency of the link, within {} ms of communication; the "
          "multiply takes {} ms. More rows in a call would help. {}",
          who, comm, compute, remedy(points));
    case Bound::memory:
      return fmt::format(
          "{}: bound by copying within the machine, {} ms; the multiply takes {} "
          "ms. Write A to where acquire_input() says, or compute more for each row: "
          "N = {}.",
          who, comm, compute, need_n(points));
    case Bound::chunks:
      return fmt::format(
          "{}: bound by the CPU time of chunks, {:.3g} us for each, which adds {} "
          "ms; the multiply takes {} ms. More rows in a call, fewer ranks, or a "
          "core to spare (--chunk-cost 0) would help.",
          who, machine.chunk_seconds * 1e6, exposed, compute);
    case Bound::link:
      break;
  }
  return fmt::format(
      "{}: bound by the link, {} ms; the multiply takes {} ms. Each machine takes in "
      "{}{}. {}",
      who, comm, compute,
      points.size() > 1 ? bytes_text(points.front().plan.wire_bytes) + " to " : std::string(),
      bytes_text(last.wire_bytes), remedy(points));
}

enum class Cut { shared_memory, along_k, whole, one_block, blocks, most, finer };

Cut cut_of(const PlanPoint& p) {
  if (p.plan.machines == 1) return Cut::shared_memory;
  if (p.plan.tile_k < p.shape.k) return Cut::along_k;
  if (p.plan.chunks_per_source == 1) return Cut::whole;
  if (p.plan.chunks_per_source >= 64) return Cut::most;
  if (p.plan.chunk_rows < p.shape.block_rows / 2) return Cut::finer;
  return p.plan.chunk_rows > p.shape.block_rows ? Cut::blocks : Cut::one_block;
}

std::string chunk_words(Points points, const PlanMachine& machine) {
  const PlanPoint& p = points.front();
  const std::string who = ranks_of(points);
  const double cost_us = machine.chunk_seconds * 1e6;
  switch (cut_of(p)) {
    case Cut::shared_memory:
      return fmt::format(
          "{}: one machine; chunks cost next to nothing there, so a large shard is "
          "cut in 64 to 128.",
          who);
    case Cut::along_k:
      return fmt::format(
          "{}: a shard is one row block, so it is cut along K: the multiply goes on "
          "with each piece that arrives.",
          who);
    case Cut::whole:
      return fmt::format(
          "{}: a shard is one chunk. Each costs {:.3g} us of CPU, more than an "
          "earlier start would win.",
          who, cost_us);
    case Cut::one_block:
      return fmt::format(
          "{}: a chunk is one row block of the multiply, {} rows. Finer ones would "
          "start nothing sooner, coarser ones would delay the last block.",
          who, p.plan.chunk_rows);
    case Cut::blocks:
      return fmt::format(
          "{}: a chunk is several row blocks: each costs {:.3g} us of CPU, and the "
          "multiply is not waiting for them.",
          who, cost_us);
    case Cut::most:
      return fmt::format("{}: a large shard has 64 to 128 chunks; more would hide nothing more.",
                         who);
    case Cut::finer:
      break;
  }
  return fmt::format("{}: chunks of {} rows, as asked for; a row block has up to {}.", who,
                     p.plan.chunk_rows, p.shape.block_rows);
}

/// Calls `add` with each run of neighbours that `same` holds together.
template <class Same, class Add>
void for_runs(Points points, Same same, Add add) {
  for (std::size_t begin = 0; begin < points.size();) {
    std::size_t end = begin + 1;
    while (end < points.size() && same(points[begin], points[end])) ++end;
    add(points.subspan(begin, end - begin));
    begin = end;
  }
}

std::string row(const PlanPoint& p) {
  const Plan& plan = p.plan;
  const auto ms = [](double value) {
    return value < 1000 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
  };
  return fmt::format(
      "{:>6} {:>8} {:>7} {:>7} {:>9} {:>9} {:>10} {:>9} {:>8.2f} {:>6.2f}  {:<8} "
      "{} x {} rows{}\n",
      p.shape.ranks, plan.machines, p.shape.rows, p.shape.n, ms(plan.compute_ms), ms(plan.comm_ms),
      ms(plan.sequential_ms), ms(plan.fused_ms), plan.speedup, plan.pipelined_over_max,
      name(plan.bound), plan.chunks_per_source, plan.chunk_rows,
      plan.tile_k < p.shape.k ? fmt::format(" x {}", plan.tile_k) : "");
}

}  // namespace

std::vector<std::string> plan_words(const PlanReport& report) {
  const Points points(report.points);
  std::vector<std::string> words;
  for_runs(
      points,
      [](const auto& a, const auto& b) {
        return a.plan.bound == b.plan.bound && (a.plan.machines == 1) == (b.plan.machines == 1);
      },
      [&](Points run) { words.push_back(bound_words(run, report.machine)); });
  for_runs(
      points,
      [](const auto& a, const auto& b) {
        const Cut cut = cut_of(a);
        return cut == cut_of(b) &&
               (cut != Cut::one_block ||
                (a.plan.chunk_rows == b.plan.chunk_rows &&
                 (a.plan.chunks_per_source == 1) == (b.plan.chunks_per_source == 1)));
      },
      [&](Points run) { words.push_back(chunk_words(run, report.machine)); });
  const PlanPoint& last = points.back();
  words.push_back(fmt::format("Within a machine: {}.",
                              last.plan.transfer == Transfer::pull
                                  ? "pull, readers pack straight from where the rows lie"
                                  : "push, owners copy to every rank"));
  if (last.plan.machines > 1 && report.machine.ranks_per_node > 1) {
    words.push_back(
        last.plan.once_per_machine
            ? fmt::format("Between machines: each chunk crosses once for each machine, not once "
                          "for each of its {} ranks.",
                          report.machine.ranks_per_node)
            : std::string("Between machines: each chunk crosses once for each rank."));
  }
  return words;
}

std::string plan_text(const PlanReport& report) {
  const PlanMachine& machine = report.machine;
  const PlanShape& first = report.points.front().shape;
  std::string text = fmt::format(
      "Plan: K = {}, {}, {:.1f} GFLOP/s per rank ({}), {} per machine, a link of {} ({})\n\n",
      first.k, report.a_type, machine.rank_flops * 1e-9, report.rate_source,
      counted(machine.ranks_per_node, "rank"), to_string(machine.link), name(machine.wiring));
  text += fmt::format("{:>6} {:>8} {:>7} {:>7} {:>9} {:>9} {:>10} {:>9} {:>8} {:>6}  {:<8} {}\n",
                      "ranks", "machines", "rows", "N", "compute", "comm", "sequential", "fused",
                      "speedup", "/max", "bound", "chunks of a shard");
  for (const PlanPoint& p : report.points) text += row(p);
  text += "\nTimes in ms; speedup = sequential / fused; /max = fused / max(compute, comm).\n";
  for (const std::string& words : plan_words(report)) text += "- " + words + "\n";
  return text;
}

}  // namespace tandem::tool
