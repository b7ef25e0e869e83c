// SPDX-License-Identifier: Apache-2.0
//
// `tandem launch -n R -- PROGRAM ARGS`: tandem::launch() for any program.
#include "tandem/launch.h"

#include <memory>

#include <fmt/format.h>

#include "commands.h"
#include "option_checks.h"
#include "tandem/world.h"

namespace tandem::tool {
namespace {

struct LaunchOptions {
  int ranks = 2;
  std::string bind = "none";
};

Outcome launch_program(const LaunchOptions& options, const std::vector<std::string>& program) {
  if (program.empty()) {
    return failed({StatusCode::kInvalidArgument,
                   "no program is given: write `tandem launch -n 2 -- PROGRAM ARGUMENTS`"});
  }
  LaunchSpec spec;
  spec.size = options.ranks;
  spec.command = program;
  if (options.bind == "core") spec.bind = Bind::core;
  if (options.bind == "numa") spec.bind = Bind::numa;
  auto report = launch(spec);
  if (!report.ok()) return failed(report.status());
  return {.exit_code = report->exit_code, .output = {}, .kind = {}, .message = report->summary};
}

}  // namespace

void add_launch(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      app.add_subcommand("launch", "start the ranks of any program that uses Tandem");
  command->footer(
      "What follows -- is the program and its arguments. Every rank finds TANDEM_RANK,\n"
      "TANDEM_SIZE and TANDEM_FD in its environment. Signals are passed on. When a rank fails\n"
      "the others are ended, and its exit code is returned (128 + signal when a signal ended "
      "it).\n\n"
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
  command->callback([&invocation, options] {
    invocation.action = [&invocation, options] {
      return launch_program(*options, invocation.program);
    };
  });
}

}  // namespace tandem::tool
