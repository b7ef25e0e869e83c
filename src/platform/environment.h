// SPDX-License-Identifier: Apache-2.0
//
// Environment variables that are numbers. Joining a world (op/world.cc) reads its rank, size and
// descriptor through here; a variable that is set but is no number in bounds is an error, never
// a silent default.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/internal_api.h"
#include "tandem/status.h"

namespace tandem::platform {

/// The variable's value; empty when it is unset or an empty string.
[[nodiscard]] std::optional<std::string> env_text(const char* name);

/// The variable as a decimal integer in min..max; empty when it is unset or an empty string.
/// Errors: kInvalidArgument naming the variable, its value and the bounds.
[[nodiscard]] TANDEM_INTERNAL_API Result<std::optional<std::int64_t>> env_integer(const char* name,
                                                                                  std::int64_t min,
                                                                                  std::int64_t max);

/// TANDEM_TIMEOUT_MS, from 1 on, and `otherwise` where it is not given. Errors: as env_integer().
[[nodiscard]] TANDEM_INTERNAL_API Result<std::chrono::milliseconds> env_timeout(
    std::chrono::milliseconds otherwise);

}  // namespace tandem::platform
