// SPDX-License-Identifier: Apache-2.0
//
// The machine: instruction sets, caches, cores, NUMA nodes, and which hardware threads this
// process may use. Kernel selection, blocking, polling limits, binding and `tandem info` ask here.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "tandem/status.h"

namespace tandem::platform {

/// What the CPU has and the operating system saves for a thread (an instruction set whose
/// registers are not saved does not count).
[[nodiscard]] base::CpuFeatures cpu_features();

[[nodiscard]] base::CacheSizes cache_sizes();

struct Topology {
  std::string cpu;  ///< model name
  int hardware_threads = 1;
  std::vector<std::vector<int>> cores;  ///< hardware threads of each physical core, by number
  std::vector<std::vector<int>> nodes;  ///< hardware threads of each NUMA node; at least one node
  base::CacheSizes caches;
};

/// Read once from hwloc; falls back to one node and what sysconf() knows.
[[nodiscard]] const Topology& topology();

/// Hardware threads that the calling thread may use, ascending.
[[nodiscard]] std::vector<int> allowed_cpus();

/// Restricts the calling thread, and threads that it starts later, to these hardware threads.
/// Errors: kInvalidArgument (none of them may be used).
Status bind_this_thread(std::span<const int> cpus);

}  // namespace tandem::platform
