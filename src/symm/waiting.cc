// SPDX-License-Identifier: Apache-2.0
//
// The waiting loop. Start reading at wait().
#include "symm/waiting.h"

#include <algorithm>

#include <fmt/format.h>

#include "platform/delay.h"

namespace tandem::symm {
namespace {

using platform::Clock;

// A dead process cannot ring: a sleeper looks round this often. One system call per awaited rank
// and slice is nothing; half as long again would be felt by people.
constexpr std::chrono::milliseconds kSlice{50};

// Reading the clock costs as much as a few pauses; do it once per this many.
constexpr int kPausesPerLook = 16;

std::string describe(const WaitDetail& d) {
  std::string text = fmt::format("call {}", d.call);
  if (d.chunk >= 0) text += fmt::format(", chunk {}", d.chunk);
  return text + fmt::format(", expected counter {}, seen {}", d.expected, d.seen);
}

/// Ranks after the own one, in the order in which the work visits them.
template <class Visit>
void for_each_peer(const Wait& w, Visit visit) {
  for (int step = 0; step < w.size; ++step) visit((w.rank + step) % w.size);
}

/// kPeerLost when a rank that is still needed is gone.
Status find_lost(const Wait& w, bool ask_kernel) {
  int lost = -1;
  Loss loss;
  for_each_peer(w, [&](int r) {
    if (lost >= 0) return;
    Loss why = w.gone(r, false);
    if ((why.empty() && !ask_kernel) || !w.awaited(r)) return;
    if (why.empty()) why = w.gone(r, true);
    if (why.empty()) return;
    lost = r;
    loss = why;
  });
  // The last thing it did may have been what is awaited: look again now that it is known gone.
  if (lost < 0 || w.ready()) return {};
  std::optional<WaitDetail> detail = w.awaited(lost);
  if (!detail) return {};
  std::string role = "it";
  if (loss.by >= 0 && loss.by != lost) {
    role = fmt::format("rank {}, for which it receives", lost);
    detail->rank = loss.by;
  }
  return {StatusCode::kPeerLost,
          fmt::format("rank {} is lost ({}) while rank {} waits for {}: {}; restart all ranks, and "
                      "look at how rank {} ended",
                      detail->rank, loss.how, w.rank, role, describe(*detail), detail->rank),
          *detail};
}

Status timed_out(const Wait& w, std::chrono::nanoseconds waited) {
  std::optional<WaitDetail> first;
  int others = 0;
  for_each_peer(w, [&](int r) {
    const std::optional<WaitDetail> detail = w.awaited(r);
    if (!detail) return;
    if (first) {
      ++others;
    } else {
      first = detail;
    }
  });
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(waited).count();
  constexpr std::string_view kRemedy = "or allow more time (the timeout option, TANDEM_TIMEOUT_MS)";
  if (!first) {
    return {StatusCode::kTimeout,
            fmt::format("rank {} waited {} ms for its peers; find what they are doing, {}", w.rank,
                        ms, kRemedy),
            WaitDetail{}};
  }
  const std::string more = others == 0 ? "" : fmt::format(" and {} more", others);
  return {StatusCode::kTimeout,
          fmt::format("rank {} waited {} ms for rank {}{}: {}; find what rank {} is doing, {}",
                      w.rank, ms, first->rank, more, describe(*first), first->rank, kRemedy),
          *first};
}

/// Polls; true when there is something to look at.
bool poll(const Wait& w, Clock::time_point now) {
  const Clock::time_point end = w.deadline.or_before(now + w.spin.limit);
  while (now < end) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      platform::pause();
      if (w.ready() || w.record.published()) return true;
    }
    now = Clock::now();
  }
  return false;
}

/// Says for as long as it lives that a core is free.
class FreeCore {
 public:
  explicit FreeCore(Remote* remote) : remote_(remote) {
    if (remote_ != nullptr) remote_->core_freed(1);
  }
  ~FreeCore() {
    if (remote_ != nullptr) remote_->core_freed(-1);
  }
  FreeCore(const FreeCore&) = delete;
  FreeCore& operator=(const FreeCore&) = delete;

 private:
  Remote* remote_;
};

}  // namespace

Status wait(const Wait& w) {
  if (w.ready()) return {};
  const Clock::time_point start = Clock::now();
  if (poll(w, start) && w.ready()) return {};

  const Sleeper sleeper(w.bell);
  const FreeCore free_core(w.remote);
  Clock::time_point next_look = start + kSlice;
  for (;;) {
    const std::uint32_t rings = w.bell.rings.load(std::memory_order_seq_cst);
    if (w.ready()) return {};
    if (w.record.published()) return w.record.read();
    const Clock::time_point now = Clock::now();
    const bool slice_over = now >= next_look;
    if (Status lost = find_lost(w, slice_over); !lost.ok()) return lost;
    if (w.deadline.passed(now)) return timed_out(w, now - start);
    if (slice_over) next_look = now + kSlice;
    platform::protocol_step("park");
    platform::park(w.bell.rings, rings, w.deadline.or_before(next_look) - now);
  }
}

}  // namespace tandem::symm
