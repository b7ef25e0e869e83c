// SPDX-License-Identifier: Apache-2.0
//
// wait(): the one loop in which a rank waits for others: poll, then sleep on the doorbell, in
// slices short enough to notice a dead rank. World::exchange() and Window::wait() are its callers.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "platform/deadline.h"
#include "symm/doorbell.h"
#include "symm/failure_record.h"
#include "symm/remote.h"
#include "tandem/status.h"

namespace tandem::symm {

/// What a wait still needs from a rank, empty when nothing.
using Awaited = std::function<std::optional<WaitDetail>(int rank)>;

/// Why a rank will never deliver, empty while it may. Where it is another that is gone, the one
/// that receives for it on this machine, `by` is that one.
struct Loss {
  std::string_view how = {};
  int by = -1;
  Loss() = default;
  Loss(const char* text) : how(text) {}
  Loss(std::string_view text, int culprit = -1) : how(text), by(culprit) {}
  [[nodiscard]] bool empty() const { return how.empty(); }
};

struct Wait {
  const std::function<bool()>& ready;  ///< reads awaited words with seq_cst loads
  const Awaited& awaited;
  /// Whether a rank is lost. `ask_kernel` is true where a system call may be spent on the answer.
  const std::function<Loss(int rank, bool ask_kernel)>& gone;
  Doorbell& bell;               ///< of the rank that waits
  const FailureRecord& record;  ///< ends the wait when published
  Remote* remote = nullptr;     ///< told that a core is free while the thread sleeps; may be null
  int rank = 0;                 ///< that waits
  int size = 1;
  platform::Spin spin;
  platform::Deadline deadline;
};

/// Ok, the published failure, kPeerLost, or kTimeout, the last two with a WaitDetail.
Status wait(const Wait& w);

}  // namespace tandem::symm
