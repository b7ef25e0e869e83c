// SPDX-License-Identifier: Apache-2.0
//
// From fork to exec: all that a child needs to become another program, prepared before the fork,
// since afterwards (perhaps in a copy of a process with many threads) only system calls are
// allowed. process_group.cc prepares one for each process, reaper.cc starts them. Start reading at
// become().
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::platform {

struct ProcessSpec {
  std::vector<std::string> command;      ///< program, looked up in PATH, and arguments
  std::vector<std::string> environment;  ///< "NAME=value", in addition to this process's
  std::vector<int> cpus;  ///< hardware threads that it may use, empty = as this process
};

/// The number under which a child finds the descriptor that it inherits. It inherits no other but
/// the three standard ones.
inline constexpr int kInheritedDescriptor = 3;

// As large as the kernel's largest configuration, so that any hardware thread fits.
inline constexpr std::size_t kMostCpus = 8192;
struct CpuBits {
  unsigned long words[kMostCpus / (8 * sizeof(unsigned long))] = {};
};

/// Points into the spec that it was prepared from.
struct Launchpad {
  std::vector<std::string> paths;  // candidates for the program, in PATH order
  std::vector<const char*> argv;   // ending in null
  std::vector<std::string> texts;  // of the environment
  std::vector<const char*> envp;   // ending in null
  CpuBits cpus;
  bool bind = false;
  bool terminal_input = false;  // standard input is a terminal, which a child may not read
};

[[nodiscard]] Launchpad prepare(const ProcessSpec& spec);

/// In the child of `parent`, with all signals blocked: makes it the leader of a process group, and
/// the program of the pad. `inherited` is what it gets as kInheritedDescriptor, -1 for nothing.
/// Returns only when that fails, with errno; `report` (moved, closed by exec) is still open then.
int become(const Launchpad& pad, int inherited, int& report, int parent);

/// Closes all descriptors from `first` to `last`.
void close_range(int first, int last);

void restore_default(int signal);

}  // namespace tandem::platform
