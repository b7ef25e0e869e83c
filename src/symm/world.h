// SPDX-License-Identifier: Apache-2.0
//
// World: membership, liveness and collective creation of windows, for thread ranks and process
// ranks alike. Behind tandem::World.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "platform/park.h"
#include "symm/window.h"
#include "tandem/status.h"

namespace tandem::symm {

/// What exchange() carries from each rank.
using Terms = std::array<std::int64_t, 16>;

class World {
 public:
  virtual ~World() = default;  ///< marks the rank as gone: peers that wait for it get kPeerLost

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::chrono::milliseconds timeout() const = 0;

  /// Polling limit for `threads` busy threads per rank: zero when all ranks' threads together
  /// outnumber the cores that the ranks may use.
  virtual platform::Spin spin(int threads) const = 0;

  /// Collective, bounded by timeout(). Every rank's terms, in rank order.
  virtual Result<std::vector<Terms>> exchange(const Terms& terms) = 0;
  /// Collective. An exchange of nothing.
  Status barrier();

  /// Collective; every rank passes the same spec (kMismatch names both ranks and values). All
  /// memory is reserved and touched by its owner here, so that exhaustion is kOutOfMemory now and
  /// not a signal later. The memory is given back when the last rank's Window is destroyed.
  virtual Result<std::unique_ptr<Window>> create_window(const WindowSpec& spec) = 0;

  /// False when the rank's process has died or its World was destroyed.
  virtual bool alive(int rank) const = 0;
};

/// One world of `size` thread ranks in this process.
Result<std::vector<std::shared_ptr<World>>> make_thread_worlds(int size,
                                                               std::chrono::milliseconds timeout);

/// Joins the world whose memory file an ancestor made with make_rendezvous().
Result<std::shared_ptr<World>> join_world(int rank, int size, int fd,
                                          std::chrono::milliseconds timeout);

/// Makes the memory file of a world of `size` process ranks; returns its descriptor, which the
/// ranks must inherit and the caller closes.
Result<int> make_rendezvous(int size);

}  // namespace tandem::symm
