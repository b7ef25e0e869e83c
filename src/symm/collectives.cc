// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of a world do together. Everything collective is an exchange() of offers: start
// reading there. create_window() is two of them.
//
// Why two slots of offers are enough: a rank publishes exchange n + 2 only after its exchange n + 1
// ended, for which every peer had to publish n + 1, which a peer does only after it has read all
// offers of exchange n. So publishing is the credit: slot n mod 2 is free when it is written again.
#include <algorithm>

#include <fmt/format.h>

#include "base/guarded.h"
#include "platform/delay.h"
#include "platform/memory_promise.h"
#include "symm/inbox.h"
#include "symm/waiting.h"
#include "symm/world.h"
#include "symm/world_memory.h"

namespace tandem::symm {
namespace {

// Memory is taken and zeroed at 1 GB/s and more; a rank with much of it may take this long per MiB
// before its peers call it late.
constexpr std::chrono::milliseconds kTouchTimePerMib{4};

/// That the ranks want the same window, and where rank 0 puts it.
enum WindowTerm : std::size_t { kBytes, kCounters, kMirror, kPlan, kOffset };

Status compare_windows(const std::vector<Terms>& all) {
  constexpr std::string_view kNames[] = {"bytes", "counters", "mirrored bytes"};
  const Terms& first = all.front();
  for (std::size_t r = 1; r < all.size(); ++r) {
    for (std::size_t i : {kBytes, kCounters, kMirror}) {
      if (first[i] == all[r][i]) continue;
      return {StatusCode::kMismatch,
              fmt::format("ranks 0 and {} ask for windows of different {}: {} and {}; every rank "
                          "must pass the same",
                          r, kNames[i], first[i], all[r][i])};
    }
    if (first[kPlan] == all[r][kPlan]) continue;
    return {StatusCode::kMismatch,
            fmt::format("ranks 0 and {} would cut the rows of A into different chunks; name one "
                        "kernel (TANDEM_KERNEL) and the tile sizes (tile_m, tile_k) on every rank",
                        r)};
  }
  return {};
}

}  // namespace

Result<std::vector<Terms>> World::exchange(Collective what, const Result<Terms>& own) {
  if (Status s = check_process(); !s.ok()) return s;
  const std::lock_guard lock(collective_);
  return exchange_until(what, own, platform::Deadline::after(timeout_));
}

Result<std::vector<Terms>> World::exchange_until(Collective what, const Result<Terms>& own,
                                                 platform::Deadline deadline) {
  // Who cannot find the memory to hear the others' offers ends the world: alone with its error, it
  // would leave them to go on without it.
  bool heard = false;
  auto result = base::guarded([&]() -> Result<std::vector<Terms>> {
    auto offers = meet(Offer::of(what, own), deadline);
    if (!offers.ok()) return offers.status();
    auto settled = settle(*offers, rank_);
    heard = true;
    return settled;
  });
  if (!heard && result.status().code() == StatusCode::kOutOfMemory) return fail(result.status());
  return result;
}

Result<std::vector<Offer>> World::meet(const Offer& offer, platform::Deadline deadline) {
  FailureRecord& record = memory_->failure();
  if (Status failed = record.read(); !failed.ok()) return failed;

  const std::uint32_t number = ++exchanges_;
  const std::size_t slot = number % kExchangeSlots;
  RankEntry& own = memory_->entry(rank_);
  own.offers[slot] = offer;
  platform::protocol_step("exchange");
  // Release: pairs with the load in seen() below. seq_cst: step S1 of doorbell.h.
  own.exchanged.store(number, std::memory_order_seq_cst);
  for (int r : machines_.local_ranks()) memory_->entry(r).bell.ring_if_asleep();
  // An operator begins anew when everything that it sent before has arrived.
  const std::int32_t behind_cargo = offer.what == Collective::restart ? 1 : 0;
  tell_all({.kind = NoteKind::exchange, .peer = behind_cargo, .number = number}, bytes_of(offer));

  const auto seen = [&](int r) {
    return memory_->entry(r).exchanged.load(std::memory_order_seq_cst);  // W3 of doorbell.h
  };
  const std::function<bool()> ready = [&] {
    for (int r = 0; r < size_; ++r) {
      if (!reached(seen(r), number)) return false;
    }
    return true;
  };
  const Awaited awaited = [&](int r) -> std::optional<WaitDetail> {
    if (reached(seen(r), number)) return std::nullopt;
    return WaitDetail{.rank = r, .call = number, .expected = number, .seen = seen(r)};
  };
  const std::function<Loss(int, bool)> why_gone = [&](int r, bool ask_kernel) {
    return gone(r, ask_kernel);
  };
  Status status = wait({.ready = ready,
                        .awaited = awaited,
                        .gone = why_gone,
                        .bell = own.bell,
                        .record = record,
                        .remote = remote_.get(),
                        .rank = rank_,
                        .size = size_,
                        .spin = spin(1),
                        .deadline = deadline});
  if (!status.ok()) return fail(status);
  std::vector<Offer> all(static_cast<std::size_t>(size_));
  for (int r = 0; r < size_; ++r) all[static_cast<std::size_t>(r)] = memory_->entry(r).offers[slot];
  return all;
}

Result<std::unique_ptr<Window>> World::create_window(const WindowSpec& spec,
                                                     const Prepare& prepare) {
  if (Status s = check_process(); !s.ok()) return s;
  const std::lock_guard lock(collective_);
  return base::guarded([&] { return create_window_locked(spec, prepare); });
}

Result<std::unique_ptr<Window>> World::create_window_locked(const WindowSpec& spec,
                                                            const Prepare& prepare) {
  // First round: agree on the shape, and promise the memory of all parts, before any rank has
  // touched any.
  constexpr std::size_t kMostBytes = std::size_t{1} << 46;  // what an address space can hold
  platform::MemoryPromise promise;
  const Status possible = base::guarded([&]() -> Status {
    if (spec.bytes > kMostBytes / static_cast<std::size_t>(size_) || spec.counters < 0) {
      return {StatusCode::kInvalidArgument,
              fmt::format("a window of {} bytes and {} counters per rank was asked for; at most {} "
                          "bytes for all {} ranks are possible",
                          spec.bytes, spec.counters, kMostBytes, size_)};
    }
    auto made = platform::MemoryPromise::make(
        {.touched = WindowMemory::rank_bytes(machines_, spec, rank_),
         .mapped = WindowMemory::part_bytes(spec) * static_cast<std::size_t>(size_),
         .what = "this rank's part of a window"});
    if (made.ok()) promise = std::move(made).value();
    return made.status();
  });
  Terms terms{};
  terms[kBytes] = static_cast<std::int64_t>(spec.bytes);
  terms[kCounters] = spec.counters;
  terms[kMirror] = static_cast<std::int64_t>(spec.mirror_bytes);
  terms[kPlan] = static_cast<std::int64_t>(spec.plan);
  terms[kOffset] = static_cast<std::int64_t>(next_offset_);
  auto agreed =
      exchange_until(Collective::create_window, possible.ok() ? Result<Terms>(terms) : possible,
                     platform::Deadline::after(timeout_));
  if (!agreed.ok()) return agreed.status();
  if (Status status = compare_windows(*agreed); !status.ok()) return status;

  // Second round: everybody takes the memory of its own part.
  const std::size_t part = WindowMemory::part_bytes(spec);
  const auto offset = static_cast<std::size_t>(agreed->front()[kOffset]);
  next_offset_ = offset + part * static_cast<std::size_t>(size_);
  std::shared_ptr<WindowMemory> memory;
  std::unique_ptr<Window> window;
  const Status made = base::guarded([&]() -> Status {
    auto opened = WindowMemory::open(memory_, machines_, spec, rank_, offset, std::move(promise));
    if (!opened.ok()) return opened.status();
    memory = *opened;
    // Open before anybody returns from here and sends.
    if (inbox_) inbox_->open(memory);
    window.reset(new Window(shared_from_this(), memory, spec));
    return prepare ? prepare(*window) : Status();
  });
  if (remote_) remote_->set_pace(spin(spec.threads + 1).limit.count() > 0);
  auto done = exchange_until(
      Collective::create_window, made.ok() ? Result<Terms>(Terms{}) : made,
      platform::Deadline::after(
          timeout_, kTouchTimePerMib * (WindowMemory::machine_bytes(machines_, spec) >> 20)));
  if (done.ok()) return window;
  // Nobody will use it: the memory goes back, without a word to ranks that may have none of theirs.
  if (window) window->memory_.reset();
  if (memory) {
    memory->abandon();
    if (inbox_) inbox_->forget(offset);
  }
  return done.status();
}

}  // namespace tandem::symm
