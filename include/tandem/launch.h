// SPDX-License-Identifier: Apache-2.0
//
// Starts rank processes of any program that joins with World::from_environment(). This is what
// `tandem launch` calls. The ranks share one anonymous memory file, handed over as an inherited
// descriptor: it has no name, so nothing can be left behind, whoever is killed and when.
#pragma once

#include <string>
#include <vector>

#include "tandem/status.h"

namespace tandem {

/// Where the launcher binds its ranks.
enum class Bind : std::uint8_t {
  none,  ///< leave placement to the operating system
  core,  ///< share the allowed cores out evenly in rank order; more ranks than cores wrap round
  numa,  ///< rank r on NUMA node r modulo the number of nodes
};

/// What this machine can give a rank for itself: its NUMA nodes where it has more than one, else
/// its cores; of each only what this process may use.
struct Devices {
  bool numa = false;  ///< nodes, not cores
  int count = 0;
  int cores_each = 1;  ///< cores of the smallest device
};
[[nodiscard]] Devices devices();
/// Errors: kInvalidArgument (none, too many, one twice, one that does not exist), with the remedy.
[[nodiscard]] Status check_devices(const std::vector<int>& list);

struct LaunchSpec {
  int size = 1;                          ///< number of ranks, 1..kMaxRanks
  std::vector<std::string> command;      ///< program and arguments; looked up in PATH
  std::vector<std::string> environment;  ///< extra "NAME=value" for every rank
  Bind bind = Bind::none;
  /// When set, in place of `bind`: rank r is bound to the device of the number devices[r].
  std::vector<int> devices = {};
};

/// How one rank ended.
struct RankExit {
  int rank = 0;
  int code = 0;    ///< exit code; 128 + signal when a signal ended it
  int signal = 0;  ///< signal that ended it, 0 when it exited
};

struct LaunchReport {
  int exit_code = 0;            ///< 0, or the code of the rank that failed first
  std::vector<RankExit> exits;  ///< in the order in which the ranks ended
  std::string summary;          ///< one line per failed rank, empty when all succeeded
};

/// Starts the ranks, forwards SIGINT, SIGTERM, SIGHUP and SIGQUIT to all of them, and waits. When
/// one rank fails the others get two seconds to notice and end by themselves, then SIGTERM, then
/// (after two more) SIGKILL. If the calling process dies, the kernel kills the ranks. Must be
/// called from one thread at a time. Errors: kInvalidArgument (size, empty command, devices), kIo
/// (cannot start), kOutOfMemory.
[[nodiscard]] Result<LaunchReport> launch(const LaunchSpec& spec);

}  // namespace tandem
