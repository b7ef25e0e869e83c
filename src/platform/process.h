// SPDX-License-Identifier: Apache-2.0
//
// ProcessGroup: child processes that start, are signalled and end together. op/launch.cc runs its
// ranks in one. If this process dies, the kernel kills the children.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "platform/park.h"
#include "tandem/status.h"

namespace tandem::platform {

/// Of this process, in a forked child its own. Costs a load: calls ask it to know whether they are
/// still in the process that made what they work on.
[[nodiscard]] int process_id();

/// "SIGKILL" for 9; "signal 99" for what has no name.
[[nodiscard]] std::string signal_name(int signal);

struct ProcessSpec {
  std::vector<std::string> command;      ///< program, looked up in PATH, and arguments
  std::vector<std::string> environment;  ///< "NAME=value", in addition to this process's
  int inherited = -1;     ///< descriptor that the child gets as kInheritedDescriptor, -1 for none
  std::vector<int> cpus;  ///< hardware threads that it may use, empty = as this process
};

/// The number under which a child finds the descriptor that it inherits. It inherits no other but
/// the three standard ones.
inline constexpr int kInheritedDescriptor = 3;

struct ProcessEnd {
  int index = 0;   ///< of the start() call
  int code = 0;    ///< exit code; 128 + signal when a signal ended it
  int signal = 0;  ///< signal that ended it, 0 when it exited
};

enum class Ending { terminate, kill };  ///< SIGTERM, SIGKILL

/// One thread uses it. At most kMostProcesses children, ever.
class ProcessGroup {
 public:
  static constexpr int kMostProcesses = 64;

  ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  ~ProcessGroup();  ///< kills and reaps what still runs

  /// Errors: kInvalidArgument (no such program), kIo, kOutOfMemory.
  Status start(const ProcessSpec& spec);
  [[nodiscard]] int running() const { return running_; }
  /// The ends of children that ended; waits for one until the deadline, for which there may be
  /// none.
  std::vector<ProcessEnd> wait(Clock::time_point deadline);
  void end_all(Ending how);

 private:
  friend class SignalForwarding;
  struct Child {
    int pid = 0;      // 0 once it was reaped
    int handle = -1;  // pidfd, -1 where the kernel has none
  };
  std::vector<Child> children_;
  int running_ = 0;
};

/// As long as it lives, SIGINT, SIGTERM, SIGHUP and SIGQUIT sent to this process go to the children
/// of the group instead. One at a time per process.
class SignalForwarding {
 public:
  explicit SignalForwarding(const ProcessGroup& group);
  ~SignalForwarding();
  SignalForwarding(const SignalForwarding&) = delete;
  SignalForwarding& operator=(const SignalForwarding&) = delete;
};

}  // namespace tandem::platform
