// SPDX-License-Identifier: Apache-2.0
//
// Few rows and weights larger than any cache, as in decoding: a multiply can be no faster than the
// larger of reading its packed weights once and doing its operations. Figures say how close.
#include <algorithm>

#include "bench/peers/shapes_section.h"
#include "platform/topology.h"

namespace tandem::bench {
namespace {

constexpr std::int64_t kRows[] = {1, 2, 4, 8, 16};
constexpr std::int64_t kK = 4096;

/// At one byte per element still twice the last-level cache, and a multiple of all panel widths.
std::int64_t columns() {
  constexpr std::int64_t kFewest = 8192, kStep = 1024;
  const std::int64_t needed = 2 * platform::cache_sizes().l3 / kK;
  return std::max(kFewest, (needed + kStep - 1) / kStep * kStep);
}

}  // namespace

void measure_floors(Session& session) {
  session.report().heading("Few rows: time over the larger of two floors");
  Bandwidth bandwidth;
  if (Status made = bandwidth.prepare(); !made.ok()) return session.fail(made.message());
  session.report().figure_header("time / floor");
  const PeerList list = session.peers();
  Problem problem;
  for (const std::int64_t m : kRows) {
    const Shape shape{.m = m, .k = kK, .n = columns(), .full_m = m};
    if (Status made = problem.make(shape, session.options().types); !made.ok()) {
      return session.fail(made.message());
    }
    measure_shape(session, list, problem,
                  {.section = "floors", .bandwidth = &bandwidth, .budget_s = 0});
  }
}

}  // namespace tandem::bench
