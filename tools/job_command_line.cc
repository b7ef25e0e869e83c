// SPDX-License-Identifier: Apache-2.0
//
// The options of a job, group by group: the problem, the s8 operator, the engine. Start reading at
// add_job_options().
#include "job_command_line.h"

#include <chrono>

#include <fmt/format.h>

#include "tandem/system.h"
#include "tandem/world.h"
#include "validators.h"

namespace tandem::tool {
namespace {

constexpr int kMostIterations = 1'000'000;

std::vector<std::string> names(const std::vector<DType>& types) {
  std::vector<std::string> words;
  for (DType type : types) words.emplace_back(name(type));
  return words;
}

void add_problem_options(CLI::App& app, const Operator& op, JobOptions& o) {
  const auto a_types = names(op.a_types), c_types = names(op.c_types);
  app.add_option("-n,--ranks", o.ranks,
                 fmt::format("number of ranks, 1..{} (default 2)", kMaxRanks))
      ->check(integer_in(1, kMaxRanks));
  app.add_option("--m", o.m, "rows of gathered A, over all ranks (default 2048)")
      ->check(integer_in(0, kMaxSize));
  app.add_option("--k", o.k, "columns of A, rows of B (default 2048)")
      ->check(integer_in(1, kMaxSize));
  app.add_option("--n", o.n, "columns of B and C (default 1024)")->check(integer_in(1, kMaxSize));
  app.add_option("--rows", o.rows,
                 "rows of every rank, as in 100,0,333,7 (default: --m split evenly)")
      ->check(checked(check_row_list));
  app.add_option("--a-type", o.a_type, choice("type of A and B", a_types, a_types.front()))
      ->check(one_of(a_types));
  app.add_option("--c-type", o.c_type, choice("type of C", c_types, c_types.front()))
      ->check(one_of(c_types));
  app.add_option("--b-layout", o.b_layout, "B as K x N (kn) or as N x K (nk, default)")
      ->check(one_of({"kn", "nk"}));
  app.add_option("--seed", o.seed, "seed of the random inputs (default 1)")
      ->check(checked(check_seed));
}

/// What allgather-gemm-dequant has beyond the others.
void add_dequant_options(CLI::App& app, Verb verb, JobOptions& o) {
  // Counts down where the negation is given. CLI11 would set an optional that nobody gave.
  app.add_flag_function(
      "--bias,!--no-bias", [&o](std::int64_t given) { o.bias = given > 0; },
      "add a random bias to the sums (default), or none");
  app.add_flag_function(
      "--row-scales", [&o](std::int64_t) { o.row_scales = true; },
      "rows of A have scales too, which travel with them (A in s8 only)");
  app.add_flag_function(
      "--saturate", [&o](std::int64_t) { o.saturate = true; },
      "f16 and bf16 results that are too large become the largest value, not infinity");
  if (verb == Verb::bench) return;
  app.add_option("--scale-size", o.scale_size,
                 "factor on the random scales; 1 (default) keeps most f16 results finite, 40 does "
                 "not")
      ->check(number(true));
  app.add_option("--file-names", o.file_names,
                 "tandem (default): pe_<rank>_a.bin and so on; catccos: x1_gm_rank<rank>.bin and "
                 "so on, as its example has them")
      ->check(one_of({"tandem", "catccos"}));
  if (verb == Verb::run) {
    app.add_flag("--accumulators", o.accumulators, "write and check the s32 sums as well");
  }
}

void add_engine_options(CLI::App& app, JobOptions& o) {
  app.add_option("--tile-m", o.tile_m, "rows of a tile of A (default 0: automatic)")
      ->check(integer_in(0, kMaxSize));
  app.add_option("--tile-k", o.tile_k, "columns of a tile of A (default 0: automatic)")
      ->check(integer_in(0, kMaxSize));
  app.add_option("--compute-threads", o.compute_threads,
                 "threads that multiply, per rank (default: cores / ranks, or CPU quota / ranks)")
      ->check(integer_in(1, kMostThreads));
  app.add_option("--comm-threads", o.comm_threads, "communication lanes per rank (default 1)")
      ->check(integer_in(1, kMaxLanes));
  app.add_option("--transfer", o.transfer,
                 "pull (default): readers fetch chunks; push: owners send them")
      ->check(one_of({"pull", "push"}));
  app.add_option("--transport", o.transport,
                 "shm (default): shared memory; sim: a simulated link, see --link; mpi: the ranks "
                 "that mpirun started, on any machines")
      ->check(one_of({"shm", "sim", "mpi"}));
  app.add_option("--link", o.link,
                 "simulated link (default 1Gbit/s,50us); also jitter=TIME, seed=NUMBER")
      ->check(checked(check_link));
  app.add_option("--workspace", o.workspace,
                 "window of a rank: full (default), whole shards, two calls deep; staged, a few "
                 "places used in turn; direct, A itself and nothing else (pull only)")
      ->check(one_of({"full", "staged", "direct"}));
  app.add_option("--stages", o.stages, "places with --workspace staged (default 2)")
      ->check(integer_in(1, kMaxStages));
  app.add_option("--stage-rows", o.stage_rows,
                 "rows of a place (default 0: three row blocks of the multiply)")
      ->check(integer_in(0, kMaxSize));
  app.add_option("--devices", o.devices,
                 "bind rank i to the i-th of these, as in 0,1: NUMA nodes where there are several, "
                 "else cores")
      ->check(checked(check_device_list));
  std::vector<std::string> kernels{"auto"};
  for (std::string& target : kernel_targets()) kernels.push_back(std::move(target));
  app.add_option("--kernel", o.kernel, choice("kernel target", kernels, "auto"))
      ->check(one_of(kernels));
  app.add_option("--ranks-as", o.ranks_as, "process (default) or thread: what a rank is")
      ->check(one_of({"process", "thread"}));
  app.add_option("--timeout", o.timeout_ms,
                 "longest wait for a rank, in ms (default TANDEM_TIMEOUT_MS, or 30000)")
      ->check(integer_in(1, std::chrono::milliseconds::max().count()));
}

}  // namespace

void add_list_options(CLI::App& app, ListOptions& list) {
  app.add_option("--shapes", list.shapes,
                 "measure every shape of this CSV file, which has columns M, K and N; "
                 "bench/peers/shapes_139.csv in the sources has 139 of real models");
  app.add_flag("--m-per-rank", list.m_per_rank,
               "M of --shapes is rows of every rank (default: of all ranks together)");
  app.add_option("--out", list.out,
                 "of --shapes: results go to this name with .csv and .json (default "
                 "bench_<operator>); shapes that are there already are not measured again");
}

void add_job_options(CLI::App& app, Verb verb, const Operator& op, JobOptions& o) {
  add_problem_options(app, op, o);
  if (op.s8_weights) add_dequant_options(app, verb, o);
  if (verb != Verb::bench) {
    app.add_option("--fill", o.fill, "random (default), or ones: with a scale of 0.5, to debug")
        ->check(one_of({"random", "ones"}));
    app.add_option("--verify", o.verify,
                   "how much of C is compared: whole; sample; auto (default): whole where that "
                   "takes a minute or less. gen writes golden.bin for whole")
        ->check(one_of({"auto", "whole", "sample"}));
  }
  if (verb == Verb::gen) {
    o.data_dir = "out";
    app.add_option("--data-dir", o.data_dir, "folder for the files (default out)");
    app.add_flag("--reuse", o.reuse,
                 "keep the files that are there if they were made with the same options, by "
                 "their checksums");
  } else {
    add_engine_options(app, o);
  }
  if (verb == Verb::run) {
    o.iterations = 1;
    app.add_option("--data-dir", o.data_dir,
                   "folder with the files of `tandem gen`; outputs go there too (default: inputs "
                   "are made in memory)");
    app.add_option("--iters", o.iterations, "number of calls (default 1)")
        ->check(integer_in(1, kMostIterations));
  }
  if (verb == Verb::bench) {
    o.iterations = 10;
    o.warmup = 5;
    app.add_option("--iters", o.iterations, "timed runs of each mode (default 10)")
        ->check(integer_in(1, kMostIterations));
    app.add_option("--warmup", o.warmup, "untimed runs of each mode before (default 5)")
        ->check(integer_in(0, kMostIterations));
    app.add_option("--time-budget", o.time_budget,
                   "fewer runs where they would take longer in all: 90, 90s, 10m, 2h; with "
                   "--shapes for the whole list, and what is left over is for the next call")
        ->check(checked(check_duration));
  }
  app.add_flag("--json", o.json, "print one JSON object, on failure {\"error\": {...}}");
  app.add_flag("--quiet", o.quiet, "no progress bar, and no text where all went well");
}

}  // namespace tandem::tool
