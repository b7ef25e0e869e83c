// SPDX-License-Identifier: Apache-2.0
//
// Topology through hwloc, affinity through the scheduler's own calls.
#include "platform/topology.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwloc.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

namespace tandem::platform {
namespace {

// Larger than any kernel's configured number of CPUs (8192), so that affinity calls always fit.
constexpr int kMaxCpus = 16384;

struct CpuSet {
  CpuSet() { CPU_ZERO_S(kBytes, set.get()); }
  static constexpr std::size_t kBytes = kMaxCpus / 8;
  struct Free {
    void operator()(cpu_set_t* p) const { CPU_FREE(p); }
  };
  std::unique_ptr<cpu_set_t, Free> set{CPU_ALLOC(kMaxCpus)};
};

std::vector<int> members(hwloc_const_cpuset_t set) {
  std::vector<int> cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) {
    cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<std::vector<int>> cpus_of_each(hwloc_topology_t hw, hwloc_obj_type_t type) {
  std::vector<std::vector<int>> all;
  for (hwloc_obj_t o = nullptr; (o = hwloc_get_next_obj_by_type(hw, type, o)) != nullptr;) {
    if (std::vector<int> cpus = members(o->cpuset); !cpus.empty()) all.push_back(std::move(cpus));
  }
  return all;
}

void read_cache(hwloc_topology_t hw, hwloc_obj_type_t type, std::int64_t& size) {
  const hwloc_obj_t cache = hwloc_get_next_obj_by_type(hw, type, nullptr);
  if (cache != nullptr && cache->attr->cache.size > 0) {
    size = static_cast<std::int64_t>(cache->attr->cache.size);
  }
}

void read_hwloc(Topology& machine) {
  hwloc_topology_t hw = nullptr;
  if (hwloc_topology_init(&hw) != 0) return;
  hwloc_topology_set_flags(hw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(hw) == 0) {
    machine.cores = cpus_of_each(hw, HWLOC_OBJ_CORE);
    machine.nodes = cpus_of_each(hw, HWLOC_OBJ_NUMANODE);
    const int threads = hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_PU);
    if (threads > 0) machine.hardware_threads = threads;
    read_cache(hw, HWLOC_OBJ_L1CACHE, machine.caches.l1d);
    read_cache(hw, HWLOC_OBJ_L2CACHE, machine.caches.l2);
    machine.caches.l3 = 0;
    read_cache(hw, HWLOC_OBJ_L3CACHE, machine.caches.l3);
    const hwloc_obj_t package = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_PACKAGE, nullptr);
    const char* model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : nullptr;
    if (model != nullptr) machine.cpu = model;
  }
  hwloc_topology_destroy(hw);
}

Topology read_topology() {
  Topology machine;
  machine.cpu = "unknown";
  machine.hardware_threads = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)));
  read_hwloc(machine);
  std::vector<int> all(static_cast<std::size_t>(machine.hardware_threads));
  std::iota(all.begin(), all.end(), 0);
  if (machine.cores.empty()) {
    for (int cpu : all) machine.cores.push_back({cpu});
  }
  if (machine.nodes.empty()) machine.nodes.push_back(all);
  return machine;
}

}  // namespace

const Topology& topology() {
  static const Topology machine = read_topology();
  return machine;
}

base::CacheSizes cache_sizes() { return topology().caches; }

std::vector<int> allowed_cpus() {
  CpuSet allowed;
  std::vector<int> cpus;
  if (!allowed.set || sched_getaffinity(0, CpuSet::kBytes, allowed.set.get()) != 0) return {0};
  for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (CPU_ISSET_S(static_cast<std::size_t>(cpu), CpuSet::kBytes, allowed.set.get())) {
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

Status bind_this_thread(std::span<const int> cpus) {
  CpuSet wanted;
  for (int cpu : cpus) {
    if (cpu >= 0 && cpu < kMaxCpus && wanted.set) {
      CPU_SET_S(static_cast<std::size_t>(cpu), CpuSet::kBytes, wanted.set.get());
    }
  }
  if (wanted.set && sched_setaffinity(0, CpuSet::kBytes, wanted.set.get()) == 0) return {};
  return {
      StatusCode::kInvalidArgument,
      fmt::format("cannot bind to hardware threads {}: {}; this process may use {}",
                  fmt::join(cpus, ","), strerrordesc_np(errno), fmt::join(allowed_cpus(), ","))};
}

}  // namespace tandem::platform
