// SPDX-License-Identifier: Apache-2.0
//
// system_info(): the machine as platform/ sees it, and the kernel table as this CPU may use it.
#include "tandem/system.h"

#include <algorithm>
#include <utility>

#include "base/guarded.h"
#include "op/kernel_choice.h"
#include "platform/cgroup.h"
#include "platform/memory.h"
#include "platform/topology.h"
#include "tile/kernel.h"
#include "tile/self_check.h"

namespace tandem {
namespace {

std::string_view proof_name(tile::Proof proof) {
  switch (proof) {
    case tile::Proof::hardware:
      return "hardware";
    case tile::Proof::emulator:
      return "emulator";
    case tile::Proof::never_run:
      break;
  }
  return "nowhere";
}

std::vector<std::string> instruction_sets(const base::CpuFeatures& cpu) {
  const std::pair<bool, const char*> all[] = {
      {cpu.avx2, "avx2"},
      {cpu.fma, "fma"},
      {cpu.f16c, "f16c"},
      {cpu.avx_vnni, "avx-vnni"},
      {cpu.avx512f, "avx512f"},
      {cpu.avx512bw, "avx512bw"},
      {cpu.avx512dq, "avx512dq"},
      {cpu.avx512vl, "avx512vl"},
      {cpu.avx512_vnni, "avx512-vnni"},
      {cpu.avx512_bf16, "avx512-bf16"},
      {cpu.neon, "neon"},
      {cpu.dotprod, "dotprod"},
      {cpu.i8mm, "i8mm"},
      {cpu.bf16, "bf16"},
  };
  std::vector<std::string> found;
  for (const auto& [has, name] : all) {
    if (has) found.emplace_back(name);
  }
  return found;
}

/// `check`: also where the kernel is known to be right.
KernelInfo describe(const tile::Kernel& kernel, const base::CpuFeatures& cpu, bool check) {
  KernelInfo info{.target = std::string(kernel.target),
                  .type = kernel.type,
                  .mr = kernel.mr,
                  .nr = kernel.nr,
                  .tested = std::string(proof_name(kernel.proof)),
                  .self_check = {},
                  .reason = {}};
  info.runnable = kernel.runs_on(cpu, &info.reason);
  if (!info.runnable) return info;
  Status found = op::trust_kernel(kernel);
  if (found.ok() && check) found = tile::self_check_once(kernel);
  if (!found.ok() || check || kernel.proof != tile::Proof::hardware) {
    info.self_check = found.ok() ? "passed" : "failed";
  }
  if (!found.ok()) {
    info.runnable = false;
    info.reason = found.message() + "; it is not used";
    return info;
  }
  const auto chosen = op::choose_kernel(kernel.type, "auto");
  info.chosen = chosen.ok() && *chosen == &kernel;
  info.reason =
      info.chosen ? "first of the table that this CPU runs" : "runs here; a faster one is chosen";
  return info;
}

SystemInfo read_system(bool check_kernels) {
  const platform::Topology& machine = platform::topology();
  const base::CpuFeatures cpu = platform::cpu_features();
  const platform::MemoryState memory = platform::memory_state();
  SystemInfo info;
  info.version = version();
  info.cpu = machine.cpu;
  info.instruction_sets = instruction_sets(cpu);
  for (const tile::Kernel& kernel : tile::kernel_table()) {
    info.kernels.push_back(describe(kernel, cpu, check_kernels));
  }
  info.cores = static_cast<int>(machine.cores.size());
  info.hardware_threads = machine.hardware_threads;
  info.affinity = platform::allowed_cpus();
  info.cores_allowed = platform::allowed_cores();
  info.cpu_quota = platform::cpu_quota();
  info.default_compute_threads = default_compute_threads();
  info.numa_nodes = static_cast<int>(machine.nodes.size());
  info.l1d_bytes = machine.caches.l1d;
  info.l2_bytes = machine.caches.l2;
  info.l3_bytes = machine.caches.l3;
  info.memory_total = memory.total;
  info.memory_available = memory.available;
  info.container_memory_limit = memory.container_limit;
  info.container = memory.container;
  info.process_memory_limit = memory.process_limit;
  info.process_memory_limit_name = memory.process_limit_name;
  return info;
}

}  // namespace

SystemInfo system_info(bool check_kernels) {
  return base::guarded_or(SystemInfo(), [&] { return read_system(check_kernels); });
}

int default_compute_threads(int ranks, int sharers) {
  return base::guarded_or(1, [&] {
    return platform::fitting_threads(platform::allowed_cores(), sharers > 0 ? sharers : ranks,
                                     platform::cpu_quota(), ranks);
  });
}

std::string version() { return TANDEM_VERSION; }

std::vector<std::string> kernel_targets() {
  return base::guarded_or(std::vector<std::string>(), [] {
    std::vector<std::string> targets;
    for (const tile::Kernel& kernel : tile::kernel_table()) {
      const std::string target(kernel.target);
      if (std::find(targets.begin(), targets.end(), target) == targets.end()) {
        targets.push_back(target);
      }
    }
    return targets;
  });
}

}  // namespace tandem
