// SPDX-License-Identifier: Apache-2.0
//
// in_parallel(): a team for one job.
#include "op/parallel.h"

#include <algorithm>

#include "base/guarded.h"
#include "platform/team.h"

namespace tandem::op {

Status in_parallel(std::int64_t pieces, int threads, const std::function<Status(Pieces&)>& work) {
  Pieces left(pieces);
  const auto others = static_cast<int>(std::clamp<std::int64_t>(pieces - 1, 0, threads - 1));
  auto team = platform::Team::create(others, "tandem-work", platform::Spin{});
  const int members = team.ok() ? others : 0;
  if (members > 0) team.value()->start(members, [&](int) { return work(left); });
  // Guarded: nothing may leave this frame while the members use it.
  const Status own = base::guarded([&] { return work(left); });
  const Status theirs = members > 0 ? team.value()->join() : Status();
  return own.ok() ? theirs : own;
}

}  // namespace tandem::op
