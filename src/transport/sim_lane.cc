// SPDX-License-Identifier: Apache-2.0
//
// SimLane. Start reading at send(), then book().
#include "transport/sim_lane.h"

#include <algorithm>
#include <cmath>

#include "platform/delay.h"

namespace tandem::transport {
namespace {

using std::chrono::nanoseconds;

// How far ahead of its start a transfer may be booked. A thread that wakes while others compute may
// wait for the end of their turn, 3 ms with Linux's defaults; what is booked by then keeps the link
// occupied, as a network card's queue would. With 0.2 ms a fused call on two busy cores stretched
// 17 ms of communication to 20. Longer, and a booking would keep others off an idle ingress.
constexpr std::chrono::milliseconds kBookAhead{4};

// A sleeping lane looks this often whether the operator has failed.
constexpr std::chrono::milliseconds kSlice{50};

// Written into an egress clock while a booking is worked out. Never a time: clocks start at 0.
constexpr std::int64_t kBusy = -1;

nanoseconds since_boot(platform::Clock::time_point moment) { return moment.time_since_epoch(); }

platform::Clock::time_point at(std::int64_t clock) {
  return platform::Clock::time_point(nanoseconds(clock));
}

/// Takes an egress clock. Only the lanes of one rank meet here, for the few instructions that a
/// booking takes, so the death of a rank leaves nobody waiting.
std::int64_t take(std::atomic<std::int64_t>& egress) {
  for (;;) {
    // Acquire: pairs with the release in give().
    const std::int64_t free_at = egress.exchange(kBusy, std::memory_order_acquire);
    if (free_at != kBusy) return free_at;
    platform::pause();
  }
}

void give(std::atomic<std::int64_t>& egress, std::int64_t free_at) {
  egress.store(free_at, std::memory_order_release);
}

}  // namespace

SimLane::SimLane(const Link& link, symm::Window& window, int index)
    : link_(link),
      window_(window),
      index_(index),
      last_arrival_(static_cast<std::size_t>(window.size())) {}

Status SimLane::send(const Parcel& parcel) {
  const Clock::time_point asked = Clock::now();
  copy_rows(parcel, window_);
  if (parcel.peer == window_.rank()) {  // a rank reaches itself without the link
    window_.notify(parcel.peer, parcel.counter);
    return {};
  }
  const auto bytes = static_cast<double>(parcel.bytes());
  const nanoseconds duration(std::llround(bytes / link_.bytes_per_second * 1e9));

  Clock::time_point free_at;
  std::optional<Clock::time_point> passed;
  while (!(passed = book(parcel.peer, duration, asked, &free_at))) {
    if (Status s = sleep(free_at - kBookAhead); !s.ok()) return s;
  }
  Clock::time_point& last = last_arrival_[static_cast<std::size_t>(parcel.peer)];
  last = std::max(last, *passed + link_.latency + jitter());
  under_way_.emplace(last, Arrival{parcel.peer, parcel.counter});
  deliver();
  return {};
}

Status SimLane::flush() {
  while (!under_way_.empty()) {
    if (Status s = sleep(under_way_.begin()->first); !s.ok()) return s;
  }
  return {};
}

std::optional<SimLane::Clock::time_point> SimLane::book(int peer, Clock::duration duration,
                                                        Clock::time_point asked,
                                                        Clock::time_point* free_at) {
  const std::int64_t latest = since_boot(Clock::now() + kBookAhead).count();
  std::atomic<std::int64_t>& egress = window_.link_clock(window_.rank(), 0);
  std::atomic<std::int64_t>& ingress = window_.link_clock(peer, 1);
  const std::int64_t egress_free = take(egress);
  // Relaxed: the clocks order nothing but themselves; the notify publishes the bytes.
  std::int64_t ingress_free = ingress.load(std::memory_order_relaxed);
  for (;;) {
    const std::int64_t free = std::max(egress_free, ingress_free);
    if (free > latest) {
      give(egress, egress_free);
      *free_at = at(free);
      return std::nullopt;
    }
    const std::int64_t end = std::max(free, since_boot(asked).count()) + duration.count();
    if (ingress.compare_exchange_weak(ingress_free, end, std::memory_order_relaxed)) {
      give(egress, end);
      return at(end);
    }
  }
}

void SimLane::deliver() {
  const Clock::time_point now = Clock::now();
  while (!under_way_.empty() && under_way_.begin()->first <= now) {
    const Arrival arrival = under_way_.begin()->second;
    under_way_.erase(under_way_.begin());
    platform::protocol_step("put-notify");
    window_.notify(arrival.peer, arrival.counter);
  }
}

Status SimLane::sleep(Clock::time_point moment) {
  moment = std::min(moment, Clock::now() + kSlice);
  if (!under_way_.empty()) moment = std::min(moment, under_way_.begin()->first);
  platform::sleep_until(moment);
  deliver();
  return window_.failure();
}

SimLane::Clock::duration SimLane::jitter() {
  if (link_.jitter.count() <= 0) return {};
  const auto lane =
      static_cast<std::uint64_t>(window_.rank()) << 32 | static_cast<std::uint64_t>(index_);
  const std::uint64_t random = platform::random_bits(
      platform::random_bits(link_.seed + platform::random_bits(lane)) + sent_++);
  return nanoseconds(random % static_cast<std::uint64_t>(link_.jitter.count()));
}

}  // namespace tandem::transport
