// SPDX-License-Identifier: Apache-2.0
//
// From the arguments of the process to one command with its options. The implementation,
// validators.h and job_command_line.cc are the files that know CLI11.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "outcome.h"

namespace tandem::tool {

struct Invocation {
  Outcome outcome;                  ///< of parsing: an error, or a help text
  std::function<Outcome()> action;  ///< the command; empty when there is none to run
  bool multiplies = false;          ///< it uses kernels
  bool json = false;                ///< --json is among the arguments, whatever else is
};

/// `arguments` are without the name of the program.
[[nodiscard]] Invocation parse_command_line(const std::vector<std::string>& arguments);

}  // namespace tandem::tool
