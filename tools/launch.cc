// SPDX-License-Identifier: Apache-2.0
//
// `tandem launch -n R -- PROGRAM ARGS`: tandem::launch() for any program.
#include "tandem/launch.h"

#include "commands.h"

namespace tandem::tool {

Outcome launch_program(const LaunchOptions& options) {
  if (options.program.empty()) {
    return failed({StatusCode::kInvalidArgument,
                   "no program is given: write `tandem launch -n 2 -- PROGRAM ARGUMENTS`"});
  }
  LaunchSpec spec;
  spec.size = options.ranks;
  spec.command = options.program;
  if (options.bind == "core") spec.bind = Bind::core;
  if (options.bind == "numa") spec.bind = Bind::numa;
  auto report = launch(spec);
  if (!report.ok()) return failed(report.status());
  return {.exit_code = report->exit_code, .message = report->summary};
}

}  // namespace tandem::tool
