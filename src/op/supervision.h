// SPDX-License-Identifier: Apache-2.0
//
// From the start of the ranks to their end: launch() (launch.cc) leaves its processes to
// supervise(), which holds the policy that include/tandem/launch.h states. How processes are
// reached is platform::ProcessGroup's affair.
#pragma once

#include "platform/process_group.h"
#include "platform/signal_inbox.h"
#include "tandem/launch.h"

namespace tandem {

/// Waits for all ranks and for what they leave behind; passes on the signals of the inbox. `fd` is
/// the memory file of their world, in which they are marked as ended.
[[nodiscard]] LaunchReport supervise(platform::ProcessGroup& group, platform::SignalInbox& inbox,
                                     int fd, int size);

}  // namespace tandem
