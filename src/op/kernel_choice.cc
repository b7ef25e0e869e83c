// SPDX-License-Identifier: Apache-2.0
//
// Selection with this CPU's features and the self-check.
#include "op/kernel_choice.h"

#include <cstdlib>

#include <fmt/format.h>

#include "platform/topology.h"
#include "tile/self_check.h"

namespace tandem::op {

Status trust_kernel(const tile::Kernel& kernel) {
  // For tests: no kernel here is wrong.
  const char* const distrusted = std::getenv("TANDEM_TEST_DISTRUST");
  if (distrusted != nullptr && kernel.target == distrusted) {
    return {StatusCode::kUnsupported,
            fmt::format("kernel '{}' of {} is wrong on this CPU: TANDEM_TEST_DISTRUST says so",
                        kernel.target, name(kernel.type))};
  }
  if (kernel.proof == tile::Proof::hardware) return {};
  return tile::self_check_once(kernel);
}

Result<const tile::Kernel*> choose_kernel(DType type, std::string_view target) {
  return tile::select_kernel(type, target, platform::cpu_features(), trust_kernel);
}

}  // namespace tandem::op
