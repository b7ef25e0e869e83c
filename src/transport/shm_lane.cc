// SPDX-License-Identifier: Apache-2.0
//
// ShmLane: put, then notify.
#include "transport/shm_lane.h"

#include "platform/delay.h"

namespace tandem::transport {

Status ShmLane::send(const Parcel& parcel) {
  copy_rows(parcel, window_);
  platform::protocol_step("put-notify");
  window_.notify(parcel.peer, parcel.counter);
  return {};
}

}  // namespace tandem::transport
