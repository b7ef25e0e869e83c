// SPDX-License-Identifier: Apache-2.0
//
// Who this process is, and the names of signals. Processes that are started: process_group.h.
#pragma once

#include <string>

namespace tandem::platform {

/// Of this process, in a forked child its own. Costs a load: calls ask it to know whether they are
/// still in the process that made what they work on.
[[nodiscard]] int process_id();

/// "SIGKILL" for 9; "signal 99" for what has no name.
[[nodiscard]] std::string signal_name(int signal);

}  // namespace tandem::platform
