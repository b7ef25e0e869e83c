// SPDX-License-Identifier: Apache-2.0
//
// ProcessGroup: processes that start, are signalled and end together, with all that they start
// themselves. op/launch.cc runs its ranks in one. They are children of a reaper (reaper.h), so
// nothing of this process matters to them and they matter to nothing in it: it may ignore SIGCHLD
// or wait for children that it does not know.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "platform/deadline.h"
#include "platform/launchpad.h"
#include "platform/reaper.h"
#include "tandem/status.h"

namespace tandem::platform {

struct ProcessEnd {
  int index = 0;   ///< of the spec
  int code = 0;    ///< exit code; 128 + signal when a signal ended it
  int signal = 0;  ///< signal that ended it, 0 when it exited
  /// False: it was sent SIGKILL, and nobody can say what came of it, since the reaper was killed or
  /// the kernel holds the process.
  bool seen = true;
};

/// One thread uses it.
class ProcessGroup {
 public:
  static constexpr int kMostProcesses = 64;

  ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  ~ProcessGroup();  ///< kills what still runs and waits for its end

  /// Once: one process for each spec, with `inherited` as its kInheritedDescriptor. Errors:
  /// kInvalidArgument (no such program), kIo, kOutOfMemory, kTimeout.
  Status start(const std::vector<ProcessSpec>& specs, int inherited);
  /// Processes of the specs that have not ended.
  [[nodiscard]] int running() const { return running_; }
  /// Whether these and all that they started have ended; wait() may still have to tell of it.
  [[nodiscard]] bool gone() const { return socket_ < 0; }
  /// The ends of processes since the last call. Waits for one, for gone(), for `other` to become
  /// readable (-1: for nothing else), or until the moment.
  std::vector<ProcessEnd> wait(Clock::time_point until, int other = -1);
  /// To every process, those that they started included. Once they are killed, nothing more.
  void signal(int signal);
  /// SIGKILL to all, again and again until all are gone or kLongestKill has passed.
  void kill();

 private:
  struct Member {
    int pid = 0;  ///< 0 until it is started
    bool ended = false;
  };
  void take(const ReaperEvent& event);
  void hear();
  void lose_reaper();
  void watch(Clock::time_point until, int other);

  std::vector<Member> members_;
  std::vector<ProcessEnd> ends_;  // that wait() has not returned; it never grows beyond start()'s
  int running_ = 0;
  bool all_run_ = false;
  std::optional<ReaperEvent> refusal_;  // why a process could not be started
  int reaper_ = 0;                      // pid
  int socket_ = -1;                     // to the reaper, -1 before it begins and when all is over
  std::optional<Deadline> killed_;      // until when the reaper must have ended
};

}  // namespace tandem::platform
