// SPDX-License-Identifier: Apache-2.0
//
// Topology through hwloc, affinity through the scheduler's own calls.
#include "platform/topology.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwloc.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

namespace tandem::platform {
namespace {

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

CpuSet CpuSet::of_this_thread() {
  CpuSet set;
  if (sched_getaffinity(0, sizeof set.words_, reinterpret_cast<cpu_set_t*>(set.words_.data())) !=
      0) {
    return {};
  }
  return set;
}

namespace {

constexpr std::size_t kWordBits = 8 * sizeof(unsigned long);

unsigned long bit(int cpu) { return 1UL << (static_cast<std::size_t>(cpu) % kWordBits); }

}  // namespace

void CpuSet::insert(int cpu) {
  if (cpu >= 0 && cpu < kMost) words_[static_cast<std::size_t>(cpu) / kWordBits] |= bit(cpu);
}

void CpuSet::erase(int cpu) {
  if (cpu >= 0 && cpu < kMost) words_[static_cast<std::size_t>(cpu) / kWordBits] &= ~bit(cpu);
}

bool CpuSet::contains(int cpu) const {
  return cpu >= 0 && cpu < kMost &&
         (words_[static_cast<std::size_t>(cpu) / kWordBits] & bit(cpu)) != 0;
}

int CpuSet::count() const {
  int cpus = 0;
  for (unsigned long word : words_) cpus += std::popcount(word);
  return cpus;
}

int CpuSet::bind(pthread_t thread) const {
  return pthread_setaffinity_np(thread, sizeof words_,
                                reinterpret_cast<const cpu_set_t*>(words_.data()));
}

std::vector<int> allowed_cpus() {
  const CpuSet allowed = CpuSet::of_this_thread();
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CpuSet::kMost; ++cpu) {
    if (allowed.contains(cpu)) cpus.push_back(cpu);
  }
  if (cpus.empty()) return {0};
  return cpus;
}

Status bind_this_thread(std::span<const int> cpus) {
  CpuSet wanted;
  for (int cpu : cpus) wanted.insert(cpu);
  const int error = wanted.bind(pthread_self());
  if (error == 0) return {};
  return {
      StatusCode::kInvalidArgument,
      fmt::format("cannot bind to hardware threads {}: {}; this process may use {}",
                  fmt::join(cpus, ","), strerrordesc_np(error), fmt::join(allowed_cpus(), ","))};
}

int allowed_cores() {
  const CpuSet allowed = CpuSet::of_this_thread();
  const auto& cores = topology().cores;
  const auto usable = std::count_if(cores.begin(), cores.end(), [&](const std::vector<int>& core) {
    return std::any_of(core.begin(), core.end(), [&](int cpu) { return allowed.contains(cpu); });
  });
  return std::max(1, static_cast<int>(usable));
}

int fitting_threads(int cores, int sharers, double quota, int ranks) {
  const int share = cores / std::max(1, sharers);
  const double paid = quota / std::max(1, ranks);
  return std::max(1, quota > 0 && paid < share ? static_cast<int>(paid) : share);
}

}  // namespace tandem::platform
