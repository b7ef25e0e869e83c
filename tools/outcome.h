// SPDX-License-Identifier: Apache-2.0
//
// How a command ends: its exit code, what goes to standard output and what went wrong. Commands
// return an Outcome; only main() prints one. merge() makes one of the outcomes of several ranks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"

namespace tandem::tool {

enum ExitCode : int {
  kExitOk = 0,
  kExitNotVerified = 1,
  kExitBadUsage = 2,  ///< wrong option, or an input file that is missing or of the wrong size
  kExitFailure = 3,   ///< timeout, lost peer, no memory, cannot write
};

struct Outcome {
  int exit_code = kExitOk;
  std::string output;      ///< for standard output
  std::string kind;        ///< name of the status code, for --json
  std::string message;     ///< for standard error; empty when there is nothing to say
  bool delivered = false;  ///< another process prints it: only the exit code is left to do
};

[[nodiscard]] int exit_code_of(StatusCode code);
/// The outcome of a command that failed.
[[nodiscard]] Outcome failed(const Status& status);
/// What to return after std::bad_alloc. Made before the attempt: in the handler there may be no
/// memory for words.
[[nodiscard]] Outcome out_of_memory();
inline constexpr std::string_view kOutOfMemory =
    "out of memory: use smaller shapes or fewer ranks, or free memory";
/// A result that is complete but wrong. `output` still goes to standard output.
[[nodiscard]] Outcome not_verified(std::string message, std::string output);

/// `prefix: reason` with the code kept.
[[nodiscard]] Status in_context(const std::string& prefix, const Status& status);

/// One outcome of all ranks' (in rank order; empty = the rank ended without a word). The same
/// message of several ranks is said once; "peer lost" only when nothing explains it.
[[nodiscard]] Outcome merge(const std::vector<std::optional<Outcome>>& ranks);

/// Prints output and message. With `json` and no output, standard output gets {"error": {…}}.
/// Returns the exit code, kExitFailure when standard output cannot be written; that standard error
/// cannot be written changes nothing.
[[nodiscard]] int print(const Outcome& outcome, bool json);

}  // namespace tandem::tool
