// SPDX-License-Identifier: Apache-2.0
//
// ProcessLock: a lock on a byte of a file that ends with this process, however it ends: by it the
// ranks of a world know who is alive. The kernel drops a lock when the last descriptor and mapping
// of its file description goes. So the lock has a description of its own that nothing maps, which
// exec closes, and which a forked child closes at once: a child that lives on must not make its
// dead parent look alive. symm/world_memory.cc takes one for each rank that is a process.
#pragma once

#include <utility>

#include "tandem/status.h"

namespace tandem::platform {

class ProcessLock {
 public:
  /// Locks byte `index` of the file behind `fd`. Not held() when somebody else holds that lock, be
  /// it in this process. Errors: kIo, kOutOfMemory (more than 4096 at a time).
  static Result<ProcessLock> take(int fd, int index);

  ProcessLock() = default;
  ProcessLock(ProcessLock&& other) noexcept { *this = std::move(other); }
  ProcessLock& operator=(ProcessLock&& other) noexcept {
    std::swap(place_, other.place_);
    std::swap(process_, other.process_);
    return *this;
  }
  ~ProcessLock();  ///< drops the lock; in a forked child, which has none, does nothing

  [[nodiscard]] bool held() const { return place_ >= 0; }

 private:
  int place_ = -1;  // in the register that forked children empty
  int process_ = 0;
};

}  // namespace tandem::platform
