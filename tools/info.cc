// SPDX-License-Identifier: Apache-2.0
//
// `tandem info`: what this machine has and what Tandem makes of it.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commands.h"
#include "mpi_ranks.h"
#include "report.h"
#include "report_json.h"
#include "tandem/system.h"

namespace tandem::tool {
namespace {

/// "0-3,8": consecutive numbers drawn together.
std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ",";
    text +=
        last == i ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string size_text(std::int64_t bytes) {
  constexpr double kKiB = 1024;
  const auto value = static_cast<double>(bytes);
  if (bytes <= 0) return "unknown";
  if (value < kKiB * kKiB) return fmt::format("{:.4g} KiB", value / kKiB);
  if (value < kKiB * kKiB * kKiB) return fmt::format("{:.4g} MiB", value / (kKiB * kKiB));
  return fmt::format("{:.1f} GiB", value / (kKiB * kKiB * kKiB));
}

/// "default compute threads: 2 = min(8 cores allowed, quota 2.0)"
std::string threads_text(const SystemInfo& s) {
  const std::string cores = counted(s.cores_allowed, "core") + " allowed";
  return fmt::format("default compute threads: {} = {}", s.default_compute_threads,
                     s.cpu_quota > 0 ? fmt::format("min({}, quota {:#})", cores,
                                                   std::round(s.cpu_quota * 100) / 100)
                                     : cores + ", no quota");
}

std::string limit_text(std::int64_t bytes, const std::string& whose) {
  return bytes > 0 ? fmt::format("{} ({})", size_text(bytes), whose) : std::string("no limit");
}

std::string info_text(const SystemInfo& s) {
  std::string text = fmt::format("tandem {}\n", s.version);
  const auto line = [&text](std::string_view label, const std::string& value) {
    text += fmt::format("{:<17}{}\n", label, value);
  };
  line("CPU", s.cpu.empty() ? "unknown" : s.cpu);
  line("Cores", fmt::format("{}, with {}; this process may use {} ({})", s.cores,
                            counted(s.hardware_threads, "hardware thread"), s.affinity.size(),
                            ranges(s.affinity)));
  line("Threads", threads_text(s));
  line("Caches", fmt::format("L1d {}, L2 {} per core, L3 {} per group", size_text(s.l1d_bytes),
                             size_text(s.l2_bytes), size_text(s.l3_bytes)));
  line("NUMA nodes", fmt::format("{}", s.numa_nodes));
  line("Memory",
       fmt::format("{}, {} available", size_text(s.memory_total), size_text(s.memory_available)));
  line("Memory limits",
       fmt::format("container {}, process {}", limit_text(s.container_memory_limit, s.container),
                   limit_text(s.process_memory_limit, s.process_memory_limit_name)));
  line("Instruction sets", fmt::format("{}", fmt::join(s.instruction_sets, " ")));
  line("MPI", mpi_description());
  text += "Kernels\n";
  for (const KernelInfo& k : s.kernels) {
    std::string reason = k.reason;
    if (k.tested == "emulator") reason += "; its tests passed in an emulator, never on hardware";
    if (k.tested == "nowhere") reason += "; never executed so far: run ./test.sh before you use it";
    if (k.self_check == "passed") reason += "; self-check passed";
    text += fmt::format("  {:<5}{:<12}{:>2} x {:<4}{:<14}{}\n", name(k.type), k.target, k.mr, k.nr,
                        k.chosen     ? "chosen"
                        : k.runnable ? "can run"
                                     : "cannot run",
                        reason);
  }
  const char* forced = std::getenv("TANDEM_KERNEL");
  if (forced != nullptr && *forced != '\0') {
    text += fmt::format("The environment variable TANDEM_KERNEL asks for '{}' instead.\n", forced);
  }
  return text;
}

}  // namespace

Outcome info(bool json, bool self_check) {
  const SystemInfo system = system_info(self_check);
  Outcome outcome{.output = json ? info_json(system) : info_text(system)};
  const bool wrong = std::any_of(system.kernels.begin(), system.kernels.end(),
                                 [](const KernelInfo& k) { return k.self_check == "failed"; });
  if (self_check && wrong) outcome.exit_code = kExitNotVerified;
  return outcome;
}

std::string kernel_warnings() {
  std::string text;
  for (const KernelInfo& k : system_info().kernels) {
    if (k.self_check == "failed") text += (text.empty() ? "" : "\n") + k.reason;
  }
  return text;
}

}  // namespace tandem::tool
