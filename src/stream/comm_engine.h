// SPDX-License-Identifier: Apache-2.0
//
// The communication engine: what each lane of a rank does during a call. It sends this rank's
// shard, chunk by chunk, in the order in which the receivers consume (send_order.h).
// Counterpart of compute_engine.h; the two meet only in the progress counters.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "stream/arrivals.h"
#include "stream/call_header.h"
#include "stream/chunk_plan.h"
#include "stream/send_order.h"
#include "symm/window.h"
#include "tandem/matrix.h"
#include "tandem/status.h"
#include "tandem/types.h"
#include "tile/kernel.h"
#include "transport/lane.h"

namespace tandem::stream {

/// What a call sends. Shared by the lanes, never changed by them.
struct SendJob {
  ConstMatrix shard;        ///< this rank's rows
  DType type = DType::f16;  ///< of the elements that travel; floats become s8 on the way
  const tile::Kernel* kernel = nullptr;  ///< quantises them
  const float* row_scale = nullptr;      ///< scales of the rows, given by the caller
  std::size_t scales_at = 0;             ///< where a place has room for scales; 0 = none travel
  ChunkPlan plan;                        ///< of the shard
  std::span<const SendStep> steps;       ///< to whom, in which order
  int lanes = 1;
  Transfer transfer = Transfer::pull;
  bool in_place = false;     ///< pull: the caller wrote the shard straight into the slot
  bool by_network = false;   ///< some ranks are on other machines
  std::size_t place = 0;     ///< pull: offset of the ring in this rank's part; push: of this rank's
                             ///< ring in every rank's part. Dense rows of K.
  StageRing ring;            ///< rows of K elements, then their scales
  int progress_counter = 0;  ///< this rank's counter for lane 0, in every peer's part
  int stage_counter = 0;     ///< of rank 0, in this rank's part: stages that a peer has finished
  std::uint64_t call = 0;
  std::chrono::milliseconds timeout{};  ///< of each wait

  /// Rows become s8 in this rank's own ring, which is then the source for all ranks, itself
  /// included.
  [[nodiscard]] bool quantises() const { return shard.type != type; }
  /// The shard travels from this rank's ring, not from where the caller has it. A network reads it
  /// later, and after a call that failed perhaps much later, when the caller's memory may be gone.
  [[nodiscard]] bool sends_from_ring() const {
    return quantises() || transfer == Transfer::pull || by_network;
  }
  /// Chunks are brought into that ring first, by the library.
  [[nodiscard]] bool copies_in() const {
    return sends_from_ring() && (!in_place || quantises() || row_scale != nullptr);
  }
};

/// Sends the chunks of lane `index`; lane 0 also publishes the header. Returns when all of them
/// have arrived, so that the caller's A is free again.
Status send_shard(const SendJob& job, int index, transport::Lane& lane, symm::Window& window,
                  CallHeaders& headers);

/// Waits until `peer` has grown its counter in this rank's part to `credit`.
Status wait_credit(symm::Window& window, int counter0, int peer, std::uint32_t credit,
                   std::uint64_t call, std::chrono::milliseconds timeout);

/// The stage count at which the place of stage `number` is free again.
[[nodiscard]] constexpr std::uint32_t stage_credit(std::uint64_t number, int places) {
  const auto held = static_cast<std::uint64_t>(places);
  return number < held ? 0 : static_cast<std::uint32_t>(number - held + 1);
}

}  // namespace tandem::stream
