// SPDX-License-Identifier: Apache-2.0
//
// Declares the commands and their options with CLI11, and turns its exceptions into outcomes.
// Start reading at parse_command_line().
#include "command_line.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commands.h"
#include "job_command_line.h"
#include "tandem/system.h"
#include "tandem/world.h"
#include "validators.h"

namespace tandem::tool {
namespace {

CLI::Validator rank_counts() {
  return {[](std::string& text) {
            return parse_integers(text, 1, kMostPlannedRanks).status().message();
          },
          ""};
}
/// What a verb is called with its operator: the operators share all but a name.
struct VerbText {
  Verb verb;
  const char* name;
  const char* summary;
  const char* example;  ///< of the verb; {0} is the operator
  const char* footer;   ///< of the verb with an operator
};

constexpr VerbText kVerbs[] = {
    {Verb::gen, "gen", "write random inputs and the golden result",
     "tandem gen {0} -n 2 --m 2048 --k 2048 --n 1024",
     "Writes for every rank pe_<rank>_a.bin (its rows of A) and pe_<rank>_b.bin (B), and\n"
     "golden.bin (C by the reference), raw and row by row; manifest.json says how they were\n"
     "made. A file that cannot be written is exit code 3.\n\n"
     "Examples:\n"
     "  tandem gen {0} -n 2 --m 2048 --k 2048 --n 1024 --data-dir out\n"
     "  tandem gen {0} --rows 100,0,333,7 --a-type bf16 --reuse"},
    {Verb::run, "run", "run an operator on files or on random data, verified",
     "tandem run {0} -n 2 --data-dir out",
     "With --data-dir, reads pe_<rank>_a.bin and so on as `tandem gen` wrote them, writes\n"
     "output_rank<rank>.bin, and compares with golden.bin where there is one. Sizes and types\n"
     "that are left out come from the folder's manifest.json. Without --data-dir, compares\n"
     "with the reference. A difference is exit code 1; an input file that is missing or of\n"
     "the wrong size is 2; a file that cannot be written is 3.\n\n"
     "Examples:\n"
     "  tandem run {0} --data-dir out\n"
     "  tandem run {0} -n 3 --m 1000 --k 777 --n 131 --iters 5"},
    {Verb::bench, "bench", "measure an operator: overlap, speedup, throughput",
     "tandem bench {0} -n 2 --m 2048 --k 2048 --n 1024",
     "Measures compute only, communication only, one after the other, and pipelined, in one\n"
     "run; checks the last result bit for bit (exit code 1 when it is wrong). With --shapes,\n"
     "a table of them, and how the ratios are spread.\n\n"
     "Examples:\n"
     "  tandem bench {0} -n 2 --m 2048 --k 2048 --n 1024 --json\n"
     "  tandem bench {0} --rows 100,0,333,7 --transport sim --link 1Gbit/s,50us\n"
     "  mpirun -n 4 --host one:2,two:2 tandem bench {0} --transport mpi\n"
     "  tandem bench {0} --shapes bench/peers/shapes_139.csv --time-budget 10m"},
};

/// The command line while it is parsed. Options live in shared pointers that the actions keep.
struct Parser {
  const std::vector<std::string>& arguments;
  std::vector<std::string> program;  ///< after "--"
  std::function<Outcome()> action;
  bool multiplies = false;
};

void add_verb(CLI::App& app, Parser& parser, const VerbText& text) {
  CLI::App* verb = app.add_subcommand(text.name, text.summary);
  verb->require_subcommand(1);
  verb->footer("Example:\n  " + fmt::format(fmt::runtime(text.example), operators()[0]->name));
  for (const Operator* op : operators()) {
    CLI::App* command = verb->add_subcommand(std::string(op->name), std::string(op->summary));
    command->footer(fmt::format(fmt::runtime(text.footer), op->name));
    auto options = std::make_shared<JobOptions>();
    add_job_options(*command, text.verb, *op, *options);
    auto list = std::make_shared<ListOptions>();
    if (text.verb == Verb::bench) add_list_options(*command, *list);
    command->callback([&parser, verb = text.verb, op, options, list] {
      parser.action = [verb, op, options, list, arguments = parser.arguments] {
        if (verb == Verb::gen) return gen(*op, *options);
        if (verb == Verb::run) return run(*op, *options, arguments);
        return list->shapes.empty() ? bench(*op, *options, arguments)
                                    : bench_list(*op, *options, *list, arguments);
      };
      parser.multiplies = verb != Verb::gen;
    });
  }
}

void add_info(CLI::App& app, Parser& parser) {
  CLI::App* command = app.add_subcommand("info", "show this machine, and which kernels it runs");
  command->footer(
      "Kernels that were never tested on such a CPU are checked before their first use; with\n"
      "--self-check all are, and the exit code is 1 when one of them is wrong.\n\n"
      "Examples:\n  tandem info --json\n  tandem info --self-check");
  auto json = std::make_shared<bool>(false), self_check = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print one JSON object");
  command->add_flag("--self-check", *self_check,
                    "compare every kernel that this CPU runs with the scalar one, on a few tiles");
  command->callback([&parser, json, self_check] {
    parser.action = [json, self_check] { return info(*json, *self_check); };
  });
}

void add_check(CLI::App& app, Parser& parser) {
  CLI::App* command = app.add_subcommand("check", "compare two result files bit for bit");
  command->footer(
      "Any NaN equals any NaN. Exit code 1 when they differ, 2 when a file is missing or the\n"
      "sizes do not fit.\n\n"
      "Example:\n  tandem check out/output_rank0.bin out/golden.bin --type f32 --cols 1024");
  auto o = std::make_shared<CheckOptions>();
  command->add_option("output", o->output, "the file in question")->required();
  command->add_option("golden", o->golden, "what it must be")->required();
  command->add_option("--type", o->type, "type of the elements: f32, f16, bf16, s32, s8")
      ->check(one_of({"f32", "f16", "bf16", "s32", "s8"}))
      ->required();
  command->add_option("--cols", o->cols, "columns of a row, to name places as (row, column)")
      ->check(integer_in(1, kMaxSize));
  command->add_flag("--json", o->json, "print one JSON object, on failure {\"error\": {...}}");
  command->add_flag("--quiet", o->quiet, "print nothing when they are equal");
  command->callback([&parser, o] { parser.action = [o] { return check(*o); }; });
}

void add_trial(CLI::App& app, Parser& parser) {
  CLI::App* verb =
      app.add_subcommand("trial", "generate, run, verify and measure a list of shapes");
  verb->require_subcommand(1);
  const char* footer =
      "For every line M,K,N (M is rows per rank): `tandem gen` into the output folder, `tandem\n"
      "run` with a rank bound to each device, its verdict for each rank, `tandem bench`. Then a\n"
      "table, also in results.csv there. For s8 one more case has scales that overflow f16.\n"
      "Exit code 1 when a result is wrong.\n\n"
      "Example:\n  tandem trial {} --devices 0,1 --shapes scripts/test_shapes.csv";
  verb->footer(fmt::format(fmt::runtime(footer), kAllGatherGemmDequant.name));
  for (const Operator* op : operators()) {
    CLI::App* command = verb->add_subcommand(std::string(op->name), std::string(op->summary));
    command->footer(fmt::format(fmt::runtime(footer), op->name));
    auto o = std::make_shared<TrialOptions>();
    command
        ->add_option("--devices", o->devices,
                     "a rank on each, as in 0,1: NUMA nodes where there are several, else cores")
        ->check(checked(check_device_list))
        ->required();
    command->add_option("--shapes", o->shapes, "CSV file with the columns M, K and N")->required();
    command->add_option("--output", o->output, "folder for the files (default output)");
    command
        ->add_option("--workspace", o->workspace,
                     "auto (default: full up to 64 MB per rank, else staged), full, staged, direct")
        ->check(one_of({"auto", "full", "staged", "direct"}));
    command->add_option("--fill", o->fill, "random (default), or ones, to debug")
        ->check(one_of({"random", "ones"}));
    command->add_option("--verify", o->verify, "as of `tandem run`: auto (default), whole, sample")
        ->check(one_of({"auto", "whole", "sample"}));
    command
        ->add_option("--scale-ops", o->scale_ops,
                     "shapes of more operations (2MKN, all ranks' rows) get fewer rows")
        ->check(number(true));
    command
        ->add_option("--time-budget", o->time_budget,
                     "of the measurement of a shape; one round is always run (default 20s)")
        ->check(checked(check_duration));
    if (op->s8_weights) {
      command->add_flag("--accumulators", o->accumulators, "write and check the s32 sums as well");
    }
    command->add_flag("--quiet", o->quiet, "the table only");
    command->callback([&parser, op, o] { parser.action = [op, o] { return trial(*op, *o); }; });
  }
}

void add_launch(CLI::App& app, Parser& parser) {
  CLI::App* command =
      app.add_subcommand("launch", "start the ranks of any program that uses Tandem");
  command->footer(
      "What follows -- is the program and its arguments. Every rank finds TANDEM_RANK,\n"
      "TANDEM_SIZE and TANDEM_FD in its environment. When a rank fails the others get 2 s to\n"
      "end, then SIGTERM, 2 s later SIGKILL; its exit code is returned (128 + signal when a\n"
      "signal ended it). INT, TERM, HUP, QUIT, USR1 and USR2 are passed on to all processes of\n"
      "the ranks. After INT (Ctrl-C) or TERM they get 10 s, then as above; the second one, half\n"
      "a second later or more, kills at once. Ctrl-Z stops the job, `fg` continues it. Nothing\n"
      "that ranks have started outlives them by more than 4 s, or the command at all, however\n"
      "it ends. Where standard input is a terminal the ranks get /dev/null.\n\n"
      "Example:\n  tandem launch -n 4 --bind core -- ./my_program --its-own option");
  auto options = std::make_shared<LaunchOptions>();
  command
      ->add_option("-n,--ranks", options->ranks,
                   fmt::format("number of ranks, 1..{} (default 2)", kMaxRanks))
      ->check(integer_in(1, kMaxRanks));
  command
      ->add_option("--bind", options->bind,
                   "none (default); core: share the cores out; numa: rank r on node r")
      ->check(one_of({"none", "core", "numa"}));
  command->callback([&parser, options] {
    options->program = parser.program;
    parser.action = [options] { return launch_program(*options); };
  });
}

void add_plan(CLI::App& app, Parser& parser) {
  CLI::App* command =
      app.add_subcommand("plan", "predict an operator on other machines: times, chunks, limits");
  command->footer(
      "A model, not a run: docs/scaling.md has its formulas and how well they hold. Only\n"
      "the rate of a rank is measured, here and in a second or two, unless --gflops gives it.\n\n"
      "Examples:\n"
      "  tandem plan --m 8192 --k 4096 --n 4096 --link 10Gbit/s,20us --gflops 110\n"
      "  tandem plan --rows-per-rank 512 --ranks 8,64,512 --ranks-per-node 8 --json");
  auto o = std::make_shared<PlanOptions>();
  command->add_option("-n,--ranks", o->ranks, "numbers of ranks (default 2,4,8,...,4096)")
      ->check(rank_counts());
  auto* m = command->add_option("--m", o->m, "rows of gathered A, over all ranks (default 4096)")
                ->check(integer_in(1, kMaxSize));
  command->add_option("--rows-per-rank", o->rows_per_rank, "rows of each rank, in place of --m")
      ->check(integer_in(1, kMaxSize))
      ->excludes(m);
  command->add_option("--k", o->k, "columns of A, rows of B (default 2048)")
      ->check(integer_in(1, kMaxSize));
  auto* n = command->add_option("--n", o->n, "columns of B and C on every rank (default 1024)")
                ->check(integer_in(1, kMaxSize));
  command
      ->add_option("--n-total", o->n_total,
                   "columns that the ranks share out among them, in place of --n")
      ->check(integer_in(1, kMaxSize))
      ->excludes(n);
  const std::vector<std::string> types{"f16", "bf16", "f32", "s8"};
  command->add_option("--a-type", o->a_type, choice("type of A and B", types, "f16"))
      ->check(one_of(types));
  command->add_option("--link", o->link, "link of each machine (default 1Gbit/s,50us)")
      ->check(checked(check_link));
  command
      ->add_option("--wiring", o->wiring,
                   "shared (default): one link for each machine; mesh: one to every other")
      ->check(one_of({"shared", "mesh"}));
  command->add_option("--ranks-per-node", o->ranks_per_node, "ranks of one machine (default 1)")
      ->check(integer_in(1, kMostPlannedRanks));
  command
      ->add_option("--gflops", o->gflops, "GFLOP/s of one rank (default: measured on this machine)")
      ->check(number(true));
  command
      ->add_option("--compute-threads", o->compute_threads,
                   "threads of the rank that is measured (default 1)")
      ->check(integer_in(1, kMostThreads));
  command
      ->add_option("--memory", o->memory_gb,
                   "GB/s that the ranks of one machine read and write together (default 30)")
      ->check(number(true));
  command
      ->add_option("--chunk-cost", o->chunk_us,
                   "CPU time of a chunk in us, 0 with a core to spare (default 45)")
      ->check(number(false));
  command
      ->add_option("--byte-cost", o->byte_ns,
                   "CPU time of a byte from the network in ns (default 0)")
      ->check(number(false));
  command->add_option("--tile-m", o->tile_m, "rows of a tile of A (default 0: the best)")
      ->check(integer_in(0, kMaxSize));
  command->add_option("--tile-k", o->tile_k, "columns of a tile of A (default 0: the best)")
      ->check(integer_in(0, kMaxSize));
  command->add_flag("--json", o->json, "print one JSON object, on failure {\"error\": {...}}");
  command->callback([&parser, o] { parser.action = [o] { return plan(*o); }; });
}

std::unique_ptr<CLI::App> make_app(Parser& parser) {
  auto app = std::make_unique<CLI::App>(
      "Streaming AllGather + GEMM on CPU ranks: the multiply starts on each piece of A the moment "
      "it has arrived.",
      "tandem");
  app->set_version_flag("--version", "tandem " + version(), "print the version");
  app->set_help_flag("-h,--help", "print this text");
  app->require_subcommand(1);
  app->get_formatter()->column_width(34);
  app->footer(
      "Exit codes: 0 ok, 1 verification failed, 2 bad usage (also: an input file that is missing\n"
      "or of the wrong size), 3 runtime failure (timeout, lost peer, no memory, cannot write).\n"
      "A command that a signal ended returns 128 + signal; launch returns its program's code.\n\n"
      "Examples:\n"
      "  tandem info\n"
      "  tandem bench allgather-gemm -n 2 --m 2048 --k 2048 --n 1024\n"
      "  tandem COMMAND --help");
  add_info(*app, parser);
  for (const VerbText& verb : kVerbs) add_verb(*app, parser, verb);
  add_trial(*app, parser);
  add_check(*app, parser);
  add_plan(*app, parser);
  add_launch(*app, parser);
  return app;
}

/// "'foo' is no command; commands: info, …" when `given` names no child of `parent`, else empty.
std::string unknown(const CLI::App& parent, const std::string& given, std::string_view kind) {
  std::vector<std::string> names;
  for (const CLI::App* child : parent.get_subcommands(nullptr)) names.push_back(child->get_name());
  if (names.empty() || std::find(names.begin(), names.end(), given) != names.end()) return {};
  const bool missing = given.empty() || given[0] == '-';
  return fmt::format(
      "{}; {}s: {}",
      missing ? fmt::format("no {} is given", kind) : fmt::format("'{}' is no {}", given, kind),
      kind, fmt::join(names, ", "));
}

/// CLI11's words where they say enough, ours where they do not, and where to read on.
Status usage_error(const CLI::App& app, const std::vector<std::string>& arguments,
                   const CLI::ParseError& error) {
  const auto argument = [&](std::size_t i) { return i < arguments.size() ? arguments[i] : ""; };
  std::string command = "tandem";
  std::string text = unknown(app, argument(0), "command");
  if (text.empty()) {
    command += " " + argument(0);
    const CLI::App& chosen = *app.get_subcommand(argument(0));
    text = unknown(chosen, argument(1), "operator");
    if (text.empty() && !chosen.get_subcommands(nullptr).empty()) command += " " + argument(1);
  }
  if (text.empty()) {
    text = error.what();
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
      text += "; give the option once, with one value";
    } else if (argument(0) == "launch" &&
               dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
      text += "; write -- before the program to start";
    }
  }
  return {StatusCode::kInvalidArgument, fmt::format("{}\nsee `{} --help`", text, command)};
}

}  // namespace

Invocation parse_command_line(const std::vector<std::string>& arguments) {
  // What follows "--" belongs to the program that launch starts, options and all.
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const std::vector<std::string> options(arguments.begin(), dashes);
  Parser parser{.arguments = arguments, .program = {}, .action = {}};
  if (dashes != arguments.end()) parser.program.assign(dashes + 1, arguments.end());

  Invocation result;
  result.json = std::find(options.begin(), options.end(), "--json") != options.end();
  const auto app = make_app(parser);
  try {
    if (!parser.program.empty() && (options.empty() || options[0] != "launch")) {
      throw CLI::ExtrasError({"--"});
    }
    app->parse(std::vector<std::string>(options.rbegin(), options.rend()));  // from the end
    result.action = std::move(parser.action);
    result.multiplies = parser.multiplies;
  } catch (const CLI::CallForHelp&) {
    result.outcome.output = app->help();
  } catch (const CLI::Success& text) {
    result.outcome.output = fmt::format("{}\n", text.what());
  } catch (const CLI::ParseError& error) {
    result.outcome = failed(usage_error(*app, options, error));
  }
  return result;
}

}  // namespace tandem::tool
