// SPDX-License-Identifier: Apache-2.0
//
// Publishing and checking of call headers.
#include "stream/call_header.h"

#include <cstring>

#include <fmt/format.h>

#include "platform/delay.h"

namespace tandem::stream {

void CallHeaders::publish(int peer) {
  window_.put(peer, slot(window_.rank()), reinterpret_cast<const std::byte*>(&own_), sizeof own_);
  platform::protocol_step("header put to notify");
  window_.notify(peer, counter(window_.rank()));
}

bool CallHeaders::verified(int source) {
  std::atomic<bool>& known = verified_[static_cast<std::size_t>(source)];
  if (source == window_.rank()) return true;
  // Relaxed: the flag only saves the comparison below; the chunk counters order the data.
  if (known.load(std::memory_order_relaxed)) return true;
  if (!arrived(source)) return false;
  CallHeader theirs;
  std::memcpy(&theirs, window_.data(window_.rank()) + slot(source), sizeof theirs);
  if (theirs.refused != 0) return false;
  if (Status status = compare_headers(own_, window_.rank(), theirs, source); !status.ok()) {
    if (all_arrived()) (void)window_.fail(status, /*refused=*/true);
    return false;
  }
  known.store(true, std::memory_order_relaxed);
  return true;
}

bool CallHeaders::arrived(int source) const {
  return source == window_.rank() || window_.test(counter(source), expected_);
}

bool CallHeaders::all_arrived() const {
  for (int r = 0; r < window_.size(); ++r) {
    if (!arrived(r)) return false;
  }
  return true;
}

Status CallHeaders::wait_for_all(std::chrono::milliseconds timeout) const {
  const auto missing = [this](int r) {
    return arrived(r) ? std::optional<WaitDetail>() : std::optional<WaitDetail>(detail(r));
  };
  return window_.wait([this] { return all_arrived(); }, missing,
                      platform::Deadline::after(timeout));
}

WaitDetail CallHeaders::detail(int source) const {
  return {.rank = source,
          .call = own_.call,
          .chunk = -1,
          .expected = expected_,
          .seen = window_.read(counter(source))};
}

Status compare_headers(const CallHeader& own, int own_rank, const CallHeader& theirs,
                       int their_rank) {
  const auto differ = [&](std::string_view what, auto mine, auto other) {
    return Status(
        StatusCode::kMismatch,
        fmt::format("ranks disagree on {}: rank {} has {}, rank {} has {}; every rank must "
                    "make the same sequence of calls with the same arguments",
                    what, own_rank, mine, their_rank, other));
  };
  if (own.call != theirs.call) return differ("the call number", own.call, theirs.call);
  if (own.ranks != theirs.ranks) return differ("the number of ranks", own.ranks, theirs.ranks);
  if (own.phase != theirs.phase) return differ("the kind of call", own.phase, theirs.phase);
  if (own.k != theirs.k) return differ("K", own.k, theirs.k);
  for (int r = 0; r < own.ranks; ++r) {
    const auto i = static_cast<std::size_t>(r);
    if (own.rows[i] != theirs.rows[i]) {
      return differ(fmt::format("the rows of rank {}", r), own.rows[i], theirs.rows[i]);
    }
  }
  return {};
}

}  // namespace tandem::stream
