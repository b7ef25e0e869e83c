// SPDX-License-Identifier: Apache-2.0
//
// RemoteLane: sorting parcels by machine.
#include "transport/remote_lane.h"

#include "platform/delay.h"

namespace tandem::transport {

RemoteLane::RemoteLane(symm::Window& window, std::chrono::milliseconds timeout)
    : window_(window),
      timeout_(timeout),
      traffic_(static_cast<std::size_t>(window.machines().count())) {
  for (Traffic& traffic : traffic_) {
    traffic.sent = std::make_shared<std::atomic<std::uint32_t>>(0);
  }
}

Status RemoteLane::send(const Parcel& parcel) {
  const symm::Machines& machines = window_.machines();
  if (machines.local(parcel.peer)) {
    copy_rows(parcel, window_);
    platform::protocol_step("put-notify");
    window_.notify(parcel.peer, parcel.counter);
    for (int peer : parcel.also) window_.notify(peer, parcel.counter);
    return {};
  }
  if (!own_part_holds(parcel)) {
    return {
        StatusCode::kInternal,
        "a parcel for another machine lies outside this rank's part of the window, where it may "
        "be gone before the network has read it; a bug in Tandem"};
  }
  symm::Cargo cargo{.peers = std::uint64_t{1} << parcel.peer,
                    .part = parcel.copy ? parcel.peer : window_.rank(),
                    .counter = parcel.counter,
                    .to = parcel.to,
                    .to_pitch = parcel.to_pitch,
                    .row_bytes = parcel.row_bytes,
                    .rows = parcel.rows,
                    .extra_to = parcel.extra_to,
                    .extra_bytes = parcel.extra_bytes};
  for (int peer : parcel.also) cargo.peers |= std::uint64_t{1} << peer;
  Traffic& traffic = traffic_[static_cast<std::size_t>(machines.of(parcel.peer))];
  symm::CargoSource source{.from = parcel.from,
                           .from_pitch = parcel.from_pitch,
                           .extra_from = parcel.extra_from,
                           .sent = traffic.sent};
  ++traffic.shipped;
  window_.ship(machines.of(parcel.peer), cargo, std::move(source));
  return {};
}

bool RemoteLane::own_part_holds(const Parcel& parcel) const {
  const auto holds = [&](const std::byte* from, std::size_t bytes) {
    // Wraps round for what lies below.
    const auto offset = reinterpret_cast<std::uintptr_t>(from) -
                        reinterpret_cast<std::uintptr_t>(window_.data(window_.rank()));
    return bytes == 0 || (offset <= window_.bytes() && bytes <= window_.bytes() - offset);
  };
  const std::size_t rows =
      parcel.rows > 0 && parcel.row_bytes > 0
          ? static_cast<std::size_t>(parcel.rows - 1) * parcel.from_pitch + parcel.row_bytes
          : 0;
  return holds(parcel.from, rows) && holds(parcel.extra_from, parcel.extra_bytes);
}

Status RemoteLane::flush() {
  // Acquire: pairs with the release of the thread that serves the network, after its last read.
  const auto left = [](const Traffic& traffic) {
    return traffic.sent->load(std::memory_order_acquire);
  };
  const auto ready = [&] {
    for (const Traffic& traffic : traffic_) {
      if (!symm::reached(left(traffic), traffic.shipped)) return false;
    }
    return true;
  };
  if (ready()) return {};
  const auto awaited = [&](int rank) -> std::optional<WaitDetail> {
    const int machine = window_.machines().of(rank);
    const Traffic& traffic = traffic_[static_cast<std::size_t>(machine)];
    // The one who takes them in answers for its machine. It may have all it needs and be gone from
    // the window while the network still reports that: it goes on receiving.
    if (rank != window_.machines().receiver(machine, window_.rank()) || window_.has_left(rank) ||
        symm::reached(left(traffic), traffic.shipped)) {
      return std::nullopt;
    }
    return WaitDetail{.rank = rank, .expected = traffic.shipped, .seen = left(traffic)};
  };
  return window_.wait(ready, awaited, platform::Deadline::after(timeout_),
                      symm::Window::Waiter::sends);
}

}  // namespace tandem::transport
