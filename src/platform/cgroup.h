// SPDX-License-Identifier: Apache-2.0
//
// What the control groups above this process allow, for both versions of the interface. Used by
// memory.cc, op/system.cc and symm/world.cc. A container usually sees only its own part of the
// tree: whatever can be read from there upwards counts. Both versions may be mounted at once
// (hybrid).
//
// `root` is put before every path that is read, /proc included, so that tests can show another
// machine's files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::platform {

/// One group that limits memory. `used` leaves out file cache that the kernel can drop.
struct MemoryGroup {
  std::string path;  ///< its folder, without `root`
  std::int64_t limit = 0;
  std::int64_t used = 0;
};

/// This process's groups that set a memory limit, innermost first.
[[nodiscard]] std::vector<MemoryGroup> memory_groups(const std::string& root = "");

/// Cores' worth of CPU time that the groups allow, 0 = no limit. 1.5 means one and a half cores.
[[nodiscard]] double cpu_quota(const std::string& root = "");

}  // namespace tandem::platform
