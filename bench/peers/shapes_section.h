// SPDX-License-Identifier: Apache-2.0
//
// One shape, all peers: the step that the sections "shapes" and "floors" are made of.
#pragma once

#include <string>

#include "bench/peers/bandwidth.h"
#include "bench/peers/session.h"

namespace tandem::bench {

struct ShapeSettings {
  std::string section;
  /// When set, reading memory takes its turn too and figures are compared with the floors.
  const Bandwidth* bandwidth = nullptr;
  double budget_s = 0;  ///< 0: no limit
};

/// Prepares, checks and times every peer; reports a figure for each.
void measure_shape(Session& session, const PeerList& list, const Problem& problem,
                   const ShapeSettings& settings);

}  // namespace tandem::bench
