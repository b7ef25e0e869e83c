// SPDX-License-Identifier: Apache-2.0
//
// SignalInbox: signals that are sent to this process, as a queue that a loop can poll. While a
// launcher (op/launch.cc) waits for its ranks it passes them on.
#pragma once

#include <optional>

#include "tandem/status.h"

namespace tandem::platform {

/// From open() to the destructor these signals are put here in place of what they did before, which
/// the destructor restores: SIGINT, SIGTERM, SIGHUP and SIGQUIT unless they were ignored; SIGUSR1,
/// SIGUSR2 and SIGTSTP only where they had their default action. One at a time per process; one
/// thread uses it.
class SignalInbox {
 public:
  SignalInbox() = default;
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;
  ~SignalInbox();

  /// Errors: kIo (no descriptors left).
  Status open();
  /// Readable when there is a signal.
  [[nodiscard]] int descriptor() const { return ends_[0]; }
  [[nodiscard]] std::optional<int> take();
  /// Does to this process what SIGTSTP does by default: returns when it is continued.
  void stop_process();

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace tandem::platform
