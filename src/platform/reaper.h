// SPDX-License-Identifier: Apache-2.0
//
// The reaper: a process between a launcher and the processes that it starts, forked by
// ProcessGroup. The kernel makes it the parent of whatever its descendants leave behind (a child
// subreaper), so that it can end all of them, however deep, and it does so when its launcher dies.
// The launcher's own children, signals and SIGCHLD play no part. Start reading at run_reaper().
#pragma once

#include <chrono>
#include <span>

#include "platform/launchpad.h"

namespace tandem::platform {

/// How long the reaper waits for processes that it has killed. One that the kernel holds longer
/// (a dead disk) is left to it.
inline constexpr std::chrono::seconds kLongestKill{10};

/// What the reaper tells: a message each.
struct ReaperEvent {
  enum Kind : int {
    started,   ///< value: pid
    not_made,  ///< value: errno of fork
    not_run,   ///< value: errno of exec
    all_run,   ///< every process has become its program
    ended,     ///< value: exit code; signal: what ended it
    all_gone,  ///< no process is left; the last event
  };
  Kind kind{};
  int index = 0;  ///< of the pad
  int value = 0;
  int signal = 0;  ///< 0 when it exited
};

/// Starts one process for each pad and keeps them. `socket` (of packets) takes numbers of signals
/// for all processes and gives events. When it is shut at the other end, or the parent of this
/// process has died, everything is killed. To be called in a forked child with all signals blocked;
/// makes only system calls.
[[noreturn]] void run_reaper(std::span<const Launchpad> pads, int inherited, int socket);

}  // namespace tandem::platform
