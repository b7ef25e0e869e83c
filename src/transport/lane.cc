// SPDX-License-Identifier: Apache-2.0
//
// The choice of a transport, and what all transports share.
#include "transport/lane.h"

#include "transport/remote_lane.h"
#include "transport/shm_lane.h"
#include "transport/sim_lane.h"

namespace tandem::transport {

void copy_rows(const Parcel& parcel, symm::Window& window) {
  if (!parcel.copy) return;
  if (parcel.extra_bytes > 0) {
    window.put(parcel.peer, parcel.extra_to, parcel.extra_from, parcel.extra_bytes);
  }
  if (parcel.rows <= 0) return;
  if (parcel.from_pitch == parcel.row_bytes && parcel.to_pitch == parcel.row_bytes) {
    window.put(parcel.peer, parcel.to, parcel.from,
               parcel.row_bytes * static_cast<std::size_t>(parcel.rows));
    return;
  }
  for (std::int64_t i = 0; i < parcel.rows; ++i) {
    const auto row = static_cast<std::size_t>(i);
    window.put(parcel.peer, parcel.to + row * parcel.to_pitch,
               parcel.from + row * parcel.from_pitch, parcel.row_bytes);
  }
}

std::unique_ptr<Lane> make_lane(const TransportSpec& spec, symm::Window& window, int index,
                                std::chrono::milliseconds timeout) {
  if (window.machines().count() > 1) return std::make_unique<RemoteLane>(window, timeout);
  switch (spec.kind) {
    case TransportKind::sim:
      return std::make_unique<SimLane>(spec.link, window, index);
    case TransportKind::shm:
    case TransportKind::mpi:
      break;
  }
  return std::make_unique<ShmLane>(window);
}

}  // namespace tandem::transport
