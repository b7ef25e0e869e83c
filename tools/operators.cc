// SPDX-License-Identifier: Apache-2.0
//
// The table of operators.
#include "operators.h"

namespace tandem::tool {

const std::vector<const Operator*>& operators() {
  static const std::vector<const Operator*> table{&kAllGatherGemm, &kAllGatherGemmDequant};
  return table;
}

}  // namespace tandem::tool
