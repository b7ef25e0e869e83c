// SPDX-License-Identifier: Apache-2.0
//
// SimLane: shared memory that behaves as a network link. Every rank has one egress and one
// ingress; a transfer starts when the sender's egress and the receiver's ingress are both free,
// occupies both for bytes / bandwidth, and arrives `latency` later. The bytes are copied at once;
// what the link's time decides is the notify. Waiting takes no CPU. Start reading at send().
//
// Link time is virtual: a transfer that could start while this thread overslept is booked from the
// moment at which it could start, as a network card would have done it, so that a late wake-up of
// the simulation does not slow the link that it simulates.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "transport/lane.h"

namespace tandem::transport {

class SimLane final : public Lane {
 public:
  SimLane(const Link& link, symm::Window& window, int index);
  /// Returns when the transfer has its place on the link. Parcels under way arrive during later
  /// calls of send() and flush().
  Status send(const Parcel& parcel) override;
  Status flush() override;
  void forget() override { under_way_.clear(); }

 private:
  using Clock = platform::Clock;
  struct Arrival {
    int peer = 0;
    int counter = 0;
  };

  /// Books the link for a transfer that could start at `asked`; returns when it has passed, or
  /// empty when the link is taken for longer than a booking may lie ahead (then *free_at says
  /// until when).
  std::optional<Clock::time_point> book(int peer, Clock::duration duration, Clock::time_point asked,
                                        Clock::time_point* free_at);
  /// Notifies what has arrived by now.
  void deliver();
  /// Sleeps until `moment` or the next arrival. Errors: the window's failure.
  Status sleep(Clock::time_point moment);
  Clock::duration jitter();

  const Link link_;
  symm::Window& window_;
  const int index_;
  std::uint64_t sent_ = 0;
  std::multimap<Clock::time_point, Arrival> under_way_;
  std::vector<Clock::time_point> last_arrival_;  // of this lane at each peer: order is kept
};

}  // namespace tandem::transport
