// SPDX-License-Identifier: Apache-2.0
//
// RemoteLane: the lane of a world of several machines. What goes to a rank of one's own machine is
// put and notified at once, as ShmLane does it; the rest is handed to the thread that serves the
// network. make_lane() chooses it; src/mpi carries what it ships.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "transport/lane.h"

namespace tandem::transport {

class RemoteLane final : public Lane {
 public:
  RemoteLane(symm::Window& window, std::chrono::milliseconds timeout);
  /// What goes to another machine must lie in this rank's own part of the window: it stays queued
  /// when a call fails, and then only the window's memory is there as long as it is. Without copy
  /// it lands in the mirror of that part.
  Status send(const Parcel& parcel) override;
  /// Returns when the network has taken everything: the memory behind the parcels is free, and
  /// what is still under way arrives without further help of this thread.
  Status flush() override;
  /// Nothing to drop: what was shipped goes out, and has arrived before the operator begins anew
  /// (Collective::restart).
  void forget() override {}

 private:
  [[nodiscard]] bool own_part_holds(const Parcel& parcel) const;

  /// Parcels shipped to a machine, and how many of them have left.
  struct Traffic {
    std::uint32_t shipped = 0;
    std::shared_ptr<std::atomic<std::uint32_t>> sent;
  };

  symm::Window& window_;
  const std::chrono::milliseconds timeout_;
  std::vector<Traffic> traffic_;  // by machine
};

}  // namespace tandem::transport
