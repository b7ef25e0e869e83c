// SPDX-License-Identifier: Apache-2.0
//
// Memory bounds from /proc and the control groups. Anything that cannot be read counts as no
// bound: a container may hide these files.
#include "platform/memory.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "platform/cgroup.h"
#include "platform/descriptor.h"

namespace tandem::platform {
namespace {

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

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

/// Column of /proc/self/statm, which counts pages, in bytes.
std::int64_t statm(int column) {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0;
  for (int i = 0; i <= column; ++i) file >> pages;
  return pages * static_cast<std::int64_t>(page_size());
}

constexpr int kStatmSize = 0, kStatmData = 5;

/// The soft limit, kNone when there is none.
std::int64_t limit_of(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return kNone;
  if (limit.rlim_cur >= static_cast<rlim_t>(kNone)) return kNone;  // RLIM_INFINITY too
  return static_cast<std::int64_t>(limit.rlim_cur);
}

/// What a limit leaves beside what is used.
std::int64_t left(std::int64_t limit, std::int64_t used) {
  return limit == kNone ? kNone : std::max<std::int64_t>(0, limit - used);
}

std::function<std::int64_t()>& pretence() {
  static std::function<std::int64_t()> touchable;
  return touchable;
}

void read_groups(MemoryState& state) {
  std::int64_t tightest = kNone;
  for (const MemoryGroup& group : memory_groups()) {
    if (group.limit < tightest) {
      tightest = group.limit;
      state.container_limit = group.limit;
      state.container = group.path;
    }
    if (const std::int64_t rest = left(group.limit, group.used); rest < state.touchable) {
      state.touchable = rest;
      state.touch_bound =
          fmt::format("the control group limit of {} MiB ({})", mib(group.limit), group.path);
    }
  }
}

void read_process_limits(MemoryState& state) {
  const std::int64_t space = limit_of(RLIMIT_AS), data = limit_of(RLIMIT_DATA);
  state.mappable = left(space, statm(kStatmSize));
  state.mappable_privately = std::min(state.mappable, left(data, statm(kStatmData)));
  if (std::min(space, data) == kNone) return;
  state.process_limit = std::min(space, data);
  state.process_limit_name = space <= data ? "RLIMIT_AS" : "RLIMIT_DATA";
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
  read_groups(state);
  if (state.touchable != kNone) {
    state.touchable -= std::min(kReserve, state.touchable / 16);
  }
  if (pretence()) state.touchable = pretence()();
  read_process_limits(state);
  return state;
}

Status check_memory(const MemoryNeed& need, std::size_t promised) {
  const MemoryState state = memory_state();
  const auto touchable = static_cast<std::size_t>(state.touchable);
  // Not as a sum: that could overflow.
  if (need.touched > touchable || promised > touchable - need.touched) {
    const std::string others =
        promised == 0 ? ""
                      : fmt::format(
                            ", of which {} MiB are promised to other ranks and buffers that "
                            "are being made",
                            promised >> 20);
    return {StatusCode::kOutOfMemory,
            fmt::format("{} bytes ({} MiB) of memory are needed for {}, but {} leaves {} MiB{}; "
                        "use smaller shapes or fewer ranks, or free memory",
                        need.touched, need.touched >> 20, need.what, state.touch_bound,
                        mib(state.touchable), others)};
  }
  const std::int64_t mappable = need.is_private ? state.mappable_privately : state.mappable;
  if (need.mapped > static_cast<std::size_t>(mappable)) {
    const bool space = need.mapped > static_cast<std::size_t>(state.mappable);
    return {StatusCode::kOutOfMemory,
            fmt::format("{} bytes ({} MiB) of address space are needed for {}, but the limit {} "
                        "leaves {} MiB; raise it with `ulimit {}`, or use smaller shapes",
                        need.mapped, need.mapped >> 20, need.what,
                        space ? "RLIMIT_AS" : "RLIMIT_DATA", mib(mappable), space ? "-v" : "-d")};
  }
  return {};
}

Status populate(std::byte* at, std::size_t bytes) {
  if (bytes == 0) return {};
  const std::size_t page = page_size();
  const std::size_t past = reinterpret_cast<std::uintptr_t>(at) % page;
  std::byte* const first = at - past;
  const std::size_t all = bytes + past;
  int tries = 1000;  // "try again" is meant for a moment
  while (madvise(first, all, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || (errno == EAGAIN && --tries > 0)) continue;
    if (errno != EINVAL) {
      return {StatusCode::kOutOfMemory,
              fmt::format("the system has no memory for {} bytes ({} MiB) that it had granted: {}; "
                          "use smaller shapes or fewer ranks, or free memory",
                          bytes, bytes >> 20, strerrordesc_np(errno))};
    }
    // An older kernel: add nothing to a word of each page. Atomic, since others may be writing.
    for (std::size_t i = 0; i < all; i += page) {
      reinterpret_cast<std::atomic<unsigned>*>(first + i)->fetch_add(0, std::memory_order_relaxed);
    }
    break;
  }
  return {};
}

void pretend_touchable(std::function<std::int64_t()> touchable) {
  pretence() = std::move(touchable);
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
