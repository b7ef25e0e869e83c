// SPDX-License-Identifier: Apache-2.0
//
// How much memory this process may still take: what the machine has, what its control groups
// (v1 and v2) leave, what its address-space limit leaves. Whoever allocates much asks
// check_memory() first, because the kernel grants mappings freely and kills later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tandem/status.h"

namespace tandem::platform {

struct MemoryState {
  std::int64_t total = 0;      ///< bytes of the machine
  std::int64_t available = 0;  ///< bytes of the machine that can be had without swapping
  std::int64_t limit = 0;      ///< tightest control group or address-space limit, 0 = none
  /// What this process may still touch, and map: the least of everything above.
  std::int64_t touchable = 0;
  std::int64_t mappable = 0;
  std::string touch_bound;  ///< which bound gives `touchable`, for messages
};

[[nodiscard]] MemoryState memory_state();

/// Ok when `touched` bytes of memory and `mapped` bytes of address space can be had now.
/// `what` completes "needed for …". Errors: kOutOfMemory naming needed, available and remedy.
[[nodiscard]] Status check_memory(std::size_t touched, std::size_t mapped, std::string_view what);

/// Most memory that this process had resident since its start or forget_peak_rss(), MiB.
[[nodiscard]] double peak_rss_mib();

/// Best effort: where the kernel does not allow it the peak stays.
void forget_peak_rss();

[[nodiscard]] std::size_t page_size();

}  // namespace tandem::platform
