// SPDX-License-Identifier: Apache-2.0
//
// What this machine offers and what Tandem makes of it: the text behind `tandem info`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tandem/status.h"
#include "tandem/types.h"

namespace tandem {

/// One row of the kernel table as this CPU sees it.
struct KernelInfo {
  std::string target;  ///< "scalar", "avx2", "avx512", "neon", …: what --kernel takes
  DType type;          ///< operand type
  int mr = 0, nr = 0;  ///< register block: rows × columns of C
  bool runnable = false;
  bool chosen = false;  ///< what "auto" takes for this type
  /// Where its tests have passed: "hardware", "emulator" (never on a real CPU), or "nowhere" (it
  /// was compiled, but never executed). Run the tests on your CPU before you rely on the latter
  /// two.
  std::string tested;
  std::string reason;  ///< why runnable, chosen or not: "needs avx512f, which this CPU lacks"
};

struct SystemInfo {
  std::string version;
  std::string cpu;                            ///< model name
  std::vector<std::string> instruction_sets;  ///< those found that a kernel can use
  std::vector<KernelInfo> kernels;
  int cores = 0;  ///< physical cores of the machine
  int hardware_threads = 0;
  std::vector<int> affinity;  ///< hardware threads this process may use
  int numa_nodes = 0;
  std::int64_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;  ///< per core, per core, per L3 group
  std::int64_t memory_total = 0, memory_available = 0;     ///< bytes
  std::int64_t memory_limit = 0;  ///< tightest cgroup or rlimit bound, 0 = none
};

[[nodiscard]] SystemInfo system_info();

/// The library's version, for example "0.1.0".
[[nodiscard]] std::string version();

/// Names of all targets in the table, best first, whether or not this CPU runs them.
[[nodiscard]] std::vector<std::string> kernel_targets();

}  // namespace tandem
