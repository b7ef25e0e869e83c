// SPDX-License-Identifier: Apache-2.0
//
// The sub-commands. Each declares itself on the command line and, when it is the one that was
// asked for, leaves an action for main() to run after parsing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "outcome.h"

namespace tandem::tool {

/// What the command line came to.
struct Invocation {
  std::vector<std::string> arguments;  ///< of this process, without its name
  std::vector<std::string> program;    ///< those after "--": what launch starts
  std::function<Outcome()> action;
};

void add_info(CLI::App& app, Invocation& invocation);
void add_gen(CLI::App& app, Invocation& invocation);
void add_run(CLI::App& app, Invocation& invocation);
void add_bench(CLI::App& app, Invocation& invocation);
void add_check(CLI::App& app, Invocation& invocation);
void add_launch(CLI::App& app, Invocation& invocation);

}  // namespace tandem::tool
