// SPDX-License-Identifier: Apache-2.0
//
// Starts rank processes of any program that joins with World::from_environment(). This is what
// `tandem launch` calls. The ranks share one anonymous memory file, handed over as an inherited
// descriptor: it has no name, so nothing can be left behind, whoever is killed and when.
#pragma once

#include <string>
#include <vector>

#include "tandem/export.h"
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
[[nodiscard]] TANDEM_API Devices devices();
/// Errors: kInvalidArgument (none, too many, one twice, one that does not exist), with the remedy.
[[nodiscard]] TANDEM_API Status check_devices(const std::vector<int>& list);

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
  int interrupted = 0;          ///< SIGINT or SIGTERM when this process was sent it, else 0
};

/// Starts the ranks and waits until they, and all that they have started, have ended.
///
/// Ends. When a rank fails the others get two seconds to notice and end by themselves, then
/// SIGTERM, then, after two more, SIGKILL. What ranks that have ended leave running gets the same.
/// No process outlives the launch: a wrapper's child, a daemon of a session of its own. If the
/// calling process dies, whatever killed it, everything is killed at once. (A process of this
/// library, tandem-reaper in `ps`, sees to it. If that alone is killed, the ranks are, with what is
/// in their process groups. Only when both are killed in the same instant may children of ranks be
/// left.)
///
/// Signals to the calling process, for the time of the call. SIGINT, SIGTERM, SIGHUP and SIGQUIT,
/// unless it ignores them, and SIGUSR1 and SIGUSR2, where it has no handler of its own, go to every
/// process of every rank instead. After SIGINT or SIGTERM the ranks have ten seconds, then as
/// above; the second one, half a second later or more, kills at once. SIGTSTP (Ctrl-Z), where there
/// is no handler, stops all ranks and then this process, until it is continued (`fg`); waits of the
/// ranks go on being counted while they are stopped. Afterwards all is as it was. SIGCHLD and the
/// caller's other children are left alone, however the caller treats them: ranks are no children of
/// it.
///
/// The terminal. Each rank leads a process group, which is not the terminal's foreground group:
/// Ctrl-C reaches the caller, which passes it on. Where standard input is a terminal the ranks get
/// /dev/null, and to read the terminal in another way fails with EIO: no rank is stopped for it
/// (SIGTTIN and SIGTTOU are ignored). A file or a pipe is handed on to all ranks as it is.
///
/// The reaper is a fork of this process: pages that the caller writes meanwhile exist twice.
///
/// One thread of a process at a time. Errors: kInvalidArgument (size, empty command, devices, no
/// such program), kUnsupported (another thread is in it), kIo (cannot start), kTimeout (a program
/// that its file system does not deliver), kOutOfMemory.
[[nodiscard]] TANDEM_API Result<LaunchReport> launch(const LaunchSpec& spec);

}  // namespace tandem
