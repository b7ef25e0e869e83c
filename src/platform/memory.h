// SPDX-License-Identifier: Apache-2.0
//
// How much memory this process may still take: what the machine has, what its control groups
// (v1 and v2) leave, what its own limits leave. Whoever allocates much makes a MemoryPromise
// (memory_promise.h), which asks check_memory(), because the kernel grants mappings freely and
// kills later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tandem/status.h"

namespace tandem::platform {

struct MemoryState {
  std::int64_t total = 0;      ///< bytes of the machine
  std::int64_t available = 0;  ///< bytes of the machine that can be had without swapping

  std::int64_t container_limit = 0;  ///< of the tightest control group, 0 = none
  std::string container;             ///< its folder
  std::int64_t process_limit = 0;    ///< the lower of RLIMIT_AS and RLIMIT_DATA, 0 = none
  std::string process_limit_name;    ///< which

  /// What this process may still touch: the least of what machine and control groups leave.
  std::int64_t touchable = 0;
  std::string touch_bound;  ///< which of them, for messages
  /// What it may still map, of any kind (RLIMIT_AS) and privately (RLIMIT_DATA too).
  std::int64_t mappable = 0, mappable_privately = 0;
};

[[nodiscard]] MemoryState memory_state();

/// What somebody is about to take.
struct MemoryNeed {
  std::size_t touched = 0;     ///< bytes of memory
  std::size_t mapped = 0;      ///< bytes of address space
  bool is_private = false;     ///< anonymous memory of this process, which RLIMIT_DATA counts
  std::string_view what = {};  ///< completes "needed for …"
};

/// Ok when the need can be met now, beside `promised` bytes that are as good as taken.
/// Errors: kOutOfMemory naming needed, available and remedy.
[[nodiscard]] Status check_memory(const MemoryNeed& need, std::size_t promised = 0);

/// Makes every page of a writable range present, from the calling thread (and thereby on its NUMA
/// node). Contents stay, also while others write there. Errors: kOutOfMemory.
Status populate(std::byte* at, std::size_t bytes);

/// For tests: what machine and control groups leave is what `touchable` returns; an empty function
/// ends that. Not while other threads ask for memory.
void pretend_touchable(std::function<std::int64_t()> touchable);

/// Most memory that this process had resident since its start or forget_peak_rss(), MiB.
[[nodiscard]] double peak_rss_mib();

/// Best effort: where the kernel does not allow it the peak stays.
void forget_peak_rss();

[[nodiscard]] std::size_t page_size();

}  // namespace tandem::platform
