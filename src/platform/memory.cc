// SPDX-License-Identifier: Apache-2.0
//
// Memory bounds from /proc and the control groups. Anything that cannot be read counts as no
// bound: a container may hide these files.
#include "platform/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "platform/cgroup.h"
#include "platform/descriptor.h"

namespace tandem::platform {
namespace {

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

// Left untouched for the rest of the machine, whose "available" is an estimate: 64 MiB, or a
// sixteenth where that is less (small containers).
constexpr std::int64_t kReserve = std::int64_t{64} << 20;

std::int64_t mib(std::int64_t bytes) { return bytes >> 20; }

/// "Name:   123 kB" lines of /proc/meminfo, in bytes.
std::int64_t meminfo(std::string_view name) {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  std::int64_t value = 0;
  while (file >> key >> value) {
    if (key == name) return value * 1024;
    std::getline(file, unit);
  }
  return kNone;
}

std::int64_t address_space_used() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0;
  file >> pages;
  return pages * static_cast<std::int64_t>(page_size());
}

}  // namespace

MemoryState memory_state() {
  MemoryState state;
  const std::int64_t total = meminfo("MemTotal:");
  const std::int64_t available = meminfo("MemAvailable:");
  state.total = total == kNone ? 0 : total;
  state.available = available == kNone ? 0 : available;
  state.touchable = available;
  state.touch_bound = "the machine's available memory";

  std::int64_t limit = kNone;
  for (const MemoryGroup& group : memory_groups()) {
    limit = std::min(limit, group.limit);
    const std::int64_t left = std::max<std::int64_t>(0, group.limit - group.used);
    if (left < state.touchable) {
      state.touchable = left;
      state.touch_bound =
          fmt::format("the control group limit of {} MiB ({})", mib(group.limit), group.path);
    }
  }
  if (state.touchable != kNone) {
    state.touchable -= std::min(kReserve, state.touchable / 16);
  }

  state.mappable = kNone;
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    const auto bound =
        static_cast<std::int64_t>(std::min<rlim_t>(space.rlim_cur, static_cast<rlim_t>(kNone)));
    limit = std::min(limit, bound);
    state.mappable = std::max<std::int64_t>(0, bound - address_space_used());
  }
  state.limit = limit == kNone ? 0 : limit;
  return state;
}

Status check_memory(std::size_t touched, std::size_t mapped, std::string_view what) {
  const MemoryState state = memory_state();
  if (touched > static_cast<std::size_t>(state.touchable)) {
    return {StatusCode::kOutOfMemory,
            fmt::format("{} bytes ({} MiB) of memory are needed for {}, but {} leaves {} MiB; use "
                        "smaller shapes or fewer ranks, or free memory",
                        touched, touched >> 20, what, state.touch_bound, mib(state.touchable))};
  }
  if (mapped > static_cast<std::size_t>(state.mappable)) {
    return {StatusCode::kOutOfMemory,
            fmt::format("{} bytes ({} MiB) of address space are needed for {}, but the limit "
                        "RLIMIT_AS leaves {} MiB; raise it with `ulimit -v`, or use smaller shapes",
                        mapped, mapped >> 20, what, mib(state.mappable))};
  }
  return {};
}

double peak_rss_mib() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<double>(usage.ru_maxrss) / 1024.0;  // Linux counts KiB
}

void forget_peak_rss() {
  const int fd = above_standard(open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC));
  if (fd < 0) return;
  (void)!write(fd, "5", 1);
  close(fd);
}

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace tandem::platform
