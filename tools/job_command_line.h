// SPDX-License-Identifier: Apache-2.0
//
// Declares the options of gen, run and bench with CLI11. command_line.cc calls it for every verb
// and operator; what the options mean is decided in job_options.cc.
#pragma once

#include "commands.h"
#include "job_options.h"
#include "operators.h"

namespace CLI {
class App;
}

namespace tandem::tool {

void add_job_options(CLI::App& app, Verb verb, const Operator& op, JobOptions& o);
/// Those of `bench --shapes`.
void add_list_options(CLI::App& app, ListOptions& list);

}  // namespace tandem::tool
