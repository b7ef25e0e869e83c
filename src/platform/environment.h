// SPDX-License-Identifier: Apache-2.0
//
// Environment variables that are numbers. Joining a world (op/world.cc) reads its rank, size and
// descriptor through here; a variable that is set but is no number in bounds is an error, never
// a silent default.
#pragma once

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

}  // namespace tandem::platform
