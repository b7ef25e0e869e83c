// SPDX-License-Identifier: Apache-2.0
//
// The machine: instruction sets, caches, cores, NUMA nodes, and which hardware threads this
// process may use. Kernel selection, blocking, polling limits, binding and `tandem info` ask here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <pthread.h>

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

/// A set of hardware threads, as large as any kernel is configured for (8192), so that affinity
/// calls always fit. A plain value: nothing here allocates.
class CpuSet {
 public:
  static constexpr int kMost = 16384;

  /// Of the calling thread. Empty when the kernel does not say.
  static CpuSet of_this_thread();

  /// Numbers outside 0..kMost - 1 are left out.
  void insert(int cpu);
  void erase(int cpu);
  [[nodiscard]] bool contains(int cpu) const;
  [[nodiscard]] int count() const;
  [[nodiscard]] bool operator==(const CpuSet&) const = default;

  /// Restricts a thread to these. Returns 0 or an errno: EINVAL when none of them may be used.
  [[nodiscard]] int bind(pthread_t thread) const;

 private:
  std::array<unsigned long, kMost / 8 / sizeof(unsigned long)> words_{};
};

/// Hardware threads that the calling thread may use, ascending.
[[nodiscard]] std::vector<int> allowed_cpus();

/// Restricts the calling thread, and threads that it starts later, to these hardware threads.
/// Errors: kInvalidArgument (none of them may be used).
Status bind_this_thread(std::span<const int> cpus);

/// Physical cores of which the calling thread may use something, at least 1. The hardware threads
/// of a core share its multipliers: they count once.
[[nodiscard]] int allowed_cores();

/// Threads that find room: floor(min(cores / sharers, quota / ranks)), at least 1. A quota of 0 is
/// none.
[[nodiscard]] int fitting_threads(int cores, int sharers, double quota, int ranks);

}  // namespace tandem::platform
