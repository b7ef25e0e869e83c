// SPDX-License-Identifier: Apache-2.0
//
// Lane: one ordered stream of parcels from this rank to its peers. What a parcel is stays the same
// for every transport; when it arrives is the transport's own matter. One thread uses a lane.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "symm/window.h"
#include "tandem/transport.h"

namespace tandem::transport {

/// A rectangle of bytes for a peer, and the counter that tells of its arrival. When `copy` is false
/// a peer of this machine reads the bytes from this rank's part (pull), where they already lie:
/// only the link's time and the notify remain. To another machine they go in any case: with `copy`
/// into the peer's own part, else into the mirror of this rank's; and then they must lie in this
/// rank's own part (RemoteLane).
struct Parcel {
  int peer = 0;
  int counter = 0;  ///< in the peer's part; grows by one on arrival
  /// Further ranks of the peer's machine, all told when the bytes are there. Without copy only.
  std::span<const int> also = {};
  bool copy = false;
  const std::byte* from = nullptr;
  std::size_t from_pitch = 0;
  std::size_t to = 0;  ///< offset in that part
  std::size_t to_pitch = 0;
  std::size_t row_bytes = 0;
  std::int64_t rows = 0;
  /// A second, contiguous piece that travels along: the scales of the rows.
  const std::byte* extra_from = nullptr;
  std::size_t extra_to = 0;
  std::size_t extra_bytes = 0;

  [[nodiscard]] std::size_t bytes() const {
    return row_bytes * static_cast<std::size_t>(rows) + extra_bytes;
  }
};

class Lane {
 public:
  virtual ~Lane() = default;
  /// Accepts a parcel; parcels to one peer arrive in the order of send(). `from` must stay valid
  /// until flush() returns. May block for the link's time, never for the peer.
  virtual Status send(const Parcel& parcel) = 0;
  /// Returns when every parcel has arrived (was notified), or will without further calls. Parcels
  /// may stay under way until then, so call it before waiting for anything that a peer does after
  /// their arrival.
  virtual Status flush() = 0;
  /// Drops what is under way: the call that sent it was refused on every rank, and the counters
  /// begin anew.
  virtual void forget() = 0;
};

/// Puts a parcel's bytes in their place at the peer, when it has any to copy.
void copy_rows(const Parcel& parcel, symm::Window& window);

/// `index` is the lane's number on this rank (it salts the sim transport's jitter). `timeout`
/// bounds a flush over a network. Where the window's ranks are on several machines, `spec` has no
/// say.
[[nodiscard]] std::unique_ptr<Lane> make_lane(
    const TransportSpec& spec, symm::Window& window, int index,
    std::chrono::milliseconds timeout = std::chrono::seconds(30));

}  // namespace tandem::transport
