// SPDX-License-Identifier: Apache-2.0
//
// The communication engine: what each lane of a rank does during a call. It sends this rank's
// shard, chunk by chunk, in the order in which the receivers consume: at step s rank r sends to
// rank r − s, so that at any time every rank hears from one other (a Latin square over the ranks).
// Counterpart of compute_engine.h; the two meet only in the progress counters.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "stream/call_header.h"
#include "stream/chunk_plan.h"
#include "symm/window.h"
#include "tandem/matrix.h"
#include "tandem/status.h"
#include "tandem/types.h"
#include "transport/lane.h"

namespace tandem::stream {

/// What a call sends. Shared by the lanes, never changed by them.
struct SendJob {
  ConstMatrix shard;  ///< this rank's rows
  ChunkPlan plan;     ///< of the shard
  int lanes = 1;
  Transfer transfer = Transfer::pull;
  bool in_place = false;     ///< pull: the caller wrote the shard straight into the slot
  bool by_peer = true;       ///< finish one peer before the next; false where no link is shared
  std::size_t slot = 0;      ///< pull: offset of the slot in this rank's part; push: of this rank's
                             ///< place in every peer's part. Dense rows of K.
  int progress_counter = 0;  ///< this rank's counter for lane 0, in every peer's part
  int done_counter = 0;      ///< of rank 0, in this rank's part: calls that a peer has finished
  std::uint32_t credit = 0;  ///< value of a peer's done counter at which the slot may be rewritten
  std::uint64_t call = 0;
  std::chrono::milliseconds timeout{};  ///< of each wait
};

/// Sends the chunks of lane `index`; lane 0 also publishes the header. Returns when all of them
/// have arrived, so that the caller's A is free again.
Status send_shard(const SendJob& job, int index, transport::Lane& lane, symm::Window& window,
                  CallHeaders& headers);

/// Waits until `peer` has finished with the slot that this call writes.
Status wait_credit(symm::Window& window, int done_counter, int peer, std::uint32_t credit,
                   std::uint64_t call, std::chrono::milliseconds timeout);

}  // namespace tandem::stream
