// SPDX-License-Identifier: Apache-2.0
//
// Stands in for the topology library, which the cross build has not: the caches of a common core.
#include "platform/topology.h"

namespace tandem::platform {

base::CacheSizes cache_sizes() { return {}; }

}  // namespace tandem::platform
