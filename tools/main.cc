// SPDX-License-Identifier: Apache-2.0
//
// The `tandem` command: parses, runs one action, prints its outcome. Sub-commands are in files of
// their own (commands.h); what they share is a Job (job.h), ranks (ranks.h) and an Outcome. It
// uses nothing of the library but include/tandem/.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commands.h"
#include "outcome.h"
#include "tandem/system.h"

namespace tandem::tool {
namespace {

std::unique_ptr<CLI::App> make_app(Invocation& invocation) {
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
  add_info(*app, invocation);
  add_gen(*app, invocation);
  add_run(*app, invocation);
  add_bench(*app, invocation);
  add_check(*app, invocation);
  add_launch(*app, invocation);
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

Outcome parse(const Invocation& invocation, CLI::App& app,
              const std::vector<std::string>& options) {
  try {
    if (!invocation.program.empty() && (options.empty() || options[0] != "launch")) {
      throw CLI::ExtrasError({"--"});
    }
    app.parse(std::vector<std::string>(options.rbegin(), options.rend()));  // from the end
  } catch (const CLI::CallForHelp&) {
    return {.exit_code = kExitOk, .output = app.help(), .kind = {}, .message = {}};
  } catch (const CLI::Success& text) {
    return {.exit_code = kExitOk,
            .output = fmt::format("{}\n", text.what()),
            .kind = {},
            .message = {}};
  } catch (const CLI::ParseError& error) {
    return failed(usage_error(app, options, error));
  }
  return {};
}

int run_main(int argc, char** argv) {
  Invocation invocation;
  invocation.arguments.assign(argv + std::min(argc, 1), argv + argc);
  // What follows "--" belongs to the program that launch starts, options and all.
  const auto dashes = std::find(invocation.arguments.begin(), invocation.arguments.end(), "--");
  std::vector<std::string> options(invocation.arguments.begin(), dashes);
  if (dashes != invocation.arguments.end()) {
    invocation.program.assign(dashes + 1, invocation.arguments.end());
  }
  const bool json = std::find(options.begin(), options.end(), "--json") != options.end();

  const auto app = make_app(invocation);
  Outcome outcome = parse(invocation, *app, options);
  if (outcome.exit_code == kExitOk && invocation.action) {
    try {
      outcome = invocation.action();
    } catch (const std::bad_alloc&) {
      outcome = failed({StatusCode::kOutOfMemory,
                        "out of memory: use smaller shapes or fewer ranks, or free memory"});
    }
  }
  const char* rank = std::getenv("TANDEM_RANK");
  if (rank != nullptr && *rank != '\0' && !outcome.message.empty()) {
    outcome.message = fmt::format("rank {}: {}", rank, outcome.message);
  }
  return print(outcome, json);
}

}  // namespace
}  // namespace tandem::tool

int main(int argc, char** argv) { return tandem::tool::run_main(argc, argv); }
