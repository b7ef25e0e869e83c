// SPDX-License-Identifier: Apache-2.0
//
// What this machine offers and what Tandem makes of it: the text behind `tandem info`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tandem/export.h"
#include "tandem/status.h"
#include "tandem/types.h"

namespace tandem {

/// One row of the kernel table as this CPU sees it.
struct KernelInfo {
  std::string target;     ///< "scalar", "avx2", "avx512", "neon", …: what --kernel takes
  DType type;             ///< operand type
  int mr = 0, nr = 0;     ///< register block: rows × columns of C
  bool runnable = false;  ///< may be used on this CPU
  bool chosen = false;    ///< what "auto" takes for this type
  /// Where its tests have passed: "hardware", "emulator" (never on a real CPU), or "nowhere" (it
  /// was compiled, but never executed). Run the tests on your CPU before you rely on the latter
  /// two.
  std::string tested;
  /// "passed" or "failed": whether it gave the scalar kernel's bits on this CPU, for a few tiles.
  /// Made by itself for a kernel that is not "hardware", before its first use; one that failed is
  /// never used. Empty where no check was made.
  std::string self_check;
  std::string reason;  ///< why runnable, chosen or not: "needs avx512f, which this CPU lacks"
};

struct SystemInfo {
  std::string version;
  std::string cpu;                            ///< model name
  std::vector<std::string> instruction_sets;  ///< those found that a kernel can use
  std::vector<KernelInfo> kernels;
  int cores = 0;  ///< physical cores of the machine
  int hardware_threads = 0;
  std::vector<int> affinity;  ///< hardware threads the calling thread may use
  int cores_allowed = 1;      ///< physical cores of these
  /// Cores' worth of CPU time that the tightest control group (container) allows, such as 1.5; 0 =
  /// no quota.
  double cpu_quota = 0;
  int default_compute_threads = 1;  ///< default_compute_threads() of one rank
  int numa_nodes = 0;
  std::int64_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;  ///< per core, per core, per L3 group
  std::int64_t memory_total = 0, memory_available = 0;     ///< bytes
  /// Bytes that the tightest control group (container) allows all its processes together, 0 = no
  /// limit, and that group's folder.
  std::int64_t container_memory_limit = 0;
  std::string container;
  /// Bytes that this process may map, the lower of RLIMIT_AS and RLIMIT_DATA, 0 = no limit, and
  /// which of the two it is. Each rank that is a process has a limit of its own.
  std::int64_t process_memory_limit = 0;
  std::string process_memory_limit_name;
};

[[nodiscard]] TANDEM_API SystemInfo system_info(bool check_kernels = false);

/// Compute threads that each of `ranks` should have when all run on this machine, `sharers` of them
/// on the CPUs that the calling thread may use (0 = all of them):
///
///     floor(min(cores allowed / sharers, CPU quota / ranks)), at least 1
///
/// Hardware threads of one core share its multipliers: a core counts once. A fraction of the quota
/// is left over (1.5 gives 1), because threads beyond it stop together whenever the quota is spent,
/// and every rank waits for the slowest. Both numbers ≥ 1 else; smaller ones count as 1.
[[nodiscard]] TANDEM_API int default_compute_threads(int ranks = 1, int sharers = 0);

/// The library's version, for example "0.1.0".
[[nodiscard]] TANDEM_API std::string version();

/// Names of all targets in the table, best first, whether or not this CPU runs them.
[[nodiscard]] TANDEM_API std::vector<std::string> kernel_targets();

}  // namespace tandem
