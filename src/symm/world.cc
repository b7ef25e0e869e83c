// SPDX-License-Identifier: Apache-2.0
//
// World over the control block. Start reading at exchange_locked().
//
// Why two slots of terms are enough: a rank publishes exchange n + 2 only after its exchange n + 1
// ended, for which every peer had to publish n + 1, which a peer does only after it has read all
// terms of exchange n. So publishing is the credit: slot n mod 2 is free when it is written again.
#include "symm/world.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "platform/cgroup.h"
#include "platform/delay.h"
#include "platform/memory.h"
#include "platform/process.h"
#include "platform/topology.h"
#include "symm/inbox.h"
#include "symm/waiting.h"
#include "symm/world_memory.h"

namespace tandem::symm {
namespace {

// To be woken takes 5 µs on a core that is awake and up to 50 µs on one that is not (measured on a
// virtual machine). Polling for as long as that wastes at most as much time as it may save.
constexpr std::chrono::microseconds kSpinLimit{50};

// Memory is taken and zeroed at 1 GB/s and more; a rank with much of it may take this long per MiB
// before its peers call it late.
constexpr std::chrono::milliseconds kTouchTimePerMib{4};

Status check_size(int size) {
  if (size >= 1 && size <= kMaxRanks) return {};
  return {StatusCode::kInvalidArgument,
          fmt::format("a world of {} ranks was asked for; 1..{} are possible", size, kMaxRanks)};
}

Status check_timeout(std::chrono::milliseconds timeout) {
  if (timeout.count() >= 1) return {};
  return {StatusCode::kInvalidArgument,
          fmt::format("the timeout is {} ms; it must be at least 1 ms", timeout.count())};
}

CpuMask mask_of(const std::vector<int>& cpus) {
  CpuMask mask{};
  for (int cpu : cpus) {
    const auto bit = static_cast<std::size_t>(cpu) % (kCpuWords * 64);
    mask[bit / 64] |= std::uint64_t{1} << (bit % 64);
  }
  return mask;
}

int count(const CpuMask& mask) {
  int cpus = 0;
  for (std::uint64_t word : mask) cpus += std::popcount(word);
  return cpus;
}

}  // namespace

World::World(std::shared_ptr<WorldMemory> memory, const Machines& machines, int rank,
             std::chrono::milliseconds timeout)
    : memory_(std::move(memory)),
      machines_(machines),
      rank_(rank),
      size_(static_cast<int>(memory_->control().size)),
      timeout_(timeout),
      process_(platform::process_id()),
      next_offset_(WorldMemory::control_bytes()) {}

World::~World() {
  if (platform::process_id() != process_) {
    // The thread that serves the network is not in this child: nothing may be asked of it.
    if (remote_) new std::shared_ptr<Remote>(std::move(remote_));
    return;
  }
  if (!placed_) return;
  // Ahead of the leaving, for the reason given in ~Window().
  if (const Status failed = memory_->control().failure.read(); !failed.ok()) tell_failure(failed);
  tell_all({.kind = NoteKind::left_world}, {});
  // Release: pairs with the acquire in gone(), so that all this rank's notifies are seen first.
  memory_->entry(rank_).state.store(RankState::left, std::memory_order_release);
  memory_->ring_all();
}

Status World::take_place() {
  if (memory_->locks()) {
    auto locked = memory_->file().lock_byte(rank_);
    if (!locked.ok()) return locked.status();
    if (!*locked) {
      return {StatusCode::kInvalidArgument,
              fmt::format("rank {} of this world is taken by another process (or joined twice); "
                          "TANDEM_RANK must differ between ranks",
                          rank_)};
    }
  }
  RankEntry& entry = memory_->entry(rank_);
  entry.cpus = mask_of(platform::allowed_cpus());
  RankState absent = RankState::absent;
  // Release: pairs with the acquire in gone() and spin().
  if (!entry.state.compare_exchange_strong(absent, RankState::joined, std::memory_order_acq_rel)) {
    return {StatusCode::kInvalidArgument,
            fmt::format("rank {} has left this world already; start a new one", rank_)};
  }
  placed_ = true;
  return {};
}

void World::tell(int peer, const Note& note, std::span<const std::byte> text) {
  if (remote_) remote_->tell(machines_.of(peer), note, text);
}

void World::tell_all(const Note& note, std::span<const std::byte> text) {
  for (int m = 0; remote_ && m < machines_.count(); ++m) {
    if (m != machines_.own()) remote_->tell(m, note, text);
  }
}

void World::tell_failure(const Status& failure, std::uint64_t window) {
  tell_all({.kind = NoteKind::failure, .window = window}, bytes_of(FailureText::of(failure)));
}

std::string_view World::gone(int rank, bool ask_kernel) const {
  if (rank == rank_) return {};
  // Acquire: pairs with the releases in take_place(), ~World() and mark_ended().
  switch (memory_->entry(rank).state.load(std::memory_order_acquire)) {
    case RankState::absent:
      return {};
    case RankState::left:
      return "it left the world";
    case RankState::ended:
      return "its process ended";
    case RankState::joined:
      break;
  }
  if (!machines_.local(rank)) {
    const int receiver = machines_.receiver(machines_.own(), rank);
    if (receiver == rank_ || !ask_kernel) return {};
    // One that has left goes on receiving while others of its machine have not, and holds its lock;
    // one that has yet to join has none. Acquire: as above.
    const RankState state = memory_->entry(receiver).state.load(std::memory_order_acquire);
    if (state == RankState::absent || memory_->file().locked_by_other(receiver)) return {};
    return receiver_lost_[static_cast<std::size_t>(rank)];
  }
  if (!ask_kernel || !memory_->locks() || memory_->file().locked_by_other(rank)) return {};
  return "its process ended";
}

bool World::alive(int rank) const {
  const auto state = memory_->entry(rank).state.load(std::memory_order_acquire);
  return state == RankState::joined && gone(rank, /*ask_kernel=*/true).empty();
}

platform::Spin World::spin(int threads) const {
  CpuMask all{};
  for (int r : machines_.local_ranks()) {
    const RankEntry& entry = memory_->entry(r);
    if (entry.state.load(std::memory_order_acquire) != RankState::joined) continue;
    for (std::size_t i = 0; i < kCpuWords; ++i) all[i] |= entry.cpus[i];
  }
  static const double quota = platform::cpu_quota();
  const int limit = quota > 0 ? static_cast<int>(quota) : kMaxRanks * 1024;
  const auto ranks = static_cast<int>(machines_.local_ranks().size());
  const bool fits = threads <= count(memory_->entry(rank_).cpus) &&
                    threads * ranks <= std::min(count(all), limit);
  return {fits ? std::chrono::nanoseconds(kSpinLimit) : std::chrono::nanoseconds(0)};
}

Result<std::vector<Terms>> World::exchange(const Terms& terms) {
  const std::lock_guard lock(collective_);
  return exchange_locked(terms, platform::Deadline::after(timeout_));
}

Status World::barrier() { return exchange({}).status(); }

Result<std::vector<Terms>> World::exchange_locked(const Terms& terms, platform::Deadline deadline) {
  FailureRecord& record = memory_->control().failure;
  if (Status failed = record.read(); !failed.ok()) return failed;

  const std::uint32_t number = ++exchanges_;
  const std::size_t slot = number % kExchangeSlots;
  RankEntry& own = memory_->entry(rank_);
  own.terms[slot] = terms;
  platform::protocol_step("exchange");
  // Release: pairs with the load in published(). seq_cst: step S1 of doorbell.h.
  own.exchanged.store(number, std::memory_order_seq_cst);
  for (int r : machines_.local_ranks()) memory_->entry(r).bell.ring_if_asleep();
  tell_all({.kind = NoteKind::exchange, .number = number}, bytes_of(terms));

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
  const std::function<std::string_view(int, bool)> why_gone = [&](int r, bool ask_kernel) {
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
  if (!status.ok()) {
    const auto [standing, mine] = record.publish(status);
    memory_->ring_all();
    if (mine) tell_failure(status);
    return standing;
  }
  std::vector<Terms> all(static_cast<std::size_t>(size_));
  for (int r = 0; r < size_; ++r) all[static_cast<std::size_t>(r)] = memory_->entry(r).terms[slot];
  return all;
}

Result<std::unique_ptr<Window>> World::create_window(const WindowSpec& spec) {
  enum : std::size_t { kBytes, kCounters, kMirror, kOffset, kCode };
  const std::lock_guard lock(collective_);

  // First round: agree on the shape, and check that memory for all parts can be had, before any
  // rank has touched any.
  constexpr std::size_t kMostBytes = std::size_t{1} << 46;  // what an address space can hold
  Status check;
  if (spec.bytes > kMostBytes / static_cast<std::size_t>(size_) || spec.counters < 0) {
    check = {StatusCode::kInvalidArgument,
             fmt::format("a window of {} bytes and {} counters per rank was asked for; at most {} "
                         "bytes for all {} ranks are possible",
                         spec.bytes, spec.counters, kMostBytes, size_)};
  } else {
    const std::size_t touched = WindowMemory::machine_bytes(machines_, spec);
    const std::size_t mapped = WindowMemory::part_bytes(spec) * static_cast<std::size_t>(size_);
    check = platform::check_memory(touched, mapped, fmt::format("the windows of {} ranks", size_));
  }
  Terms terms{};
  terms[kBytes] = static_cast<std::int64_t>(spec.bytes);
  terms[kCounters] = spec.counters;
  terms[kMirror] = static_cast<std::int64_t>(spec.mirror_bytes);
  terms[kOffset] = static_cast<std::int64_t>(next_offset_);
  terms[kCode] = static_cast<std::int64_t>(check.code());
  auto agreed = exchange_locked(terms, platform::Deadline::after(timeout_));
  if (!agreed.ok()) return agreed.status();
  if (!check.ok()) return check;

  const auto failed_rank = [](const std::vector<Terms>& all) -> int {
    const auto bad = std::find_if(all.begin(), all.end(), [](const Terms& t) { return t[kCode]; });
    return bad == all.end() ? -1 : static_cast<int>(bad - all.begin());
  };
  const auto failure_of = [&](const std::vector<Terms>& all, int r) {
    const auto code = static_cast<StatusCode>(all[static_cast<std::size_t>(r)][kCode]);
    return Status(code, fmt::format("rank {} cannot have its part of a window of {} bytes per rank "
                                    "({}); its own message says why",
                                    r, spec.bytes, name(code)));
  };
  constexpr const char* kNames[] = {"bytes", "counters", "mirrored bytes"};
  const Terms& first = agreed->front();
  for (int r = 1; r < size_; ++r) {
    const Terms& other = (*agreed)[static_cast<std::size_t>(r)];
    for (std::size_t i : {kBytes, kCounters, kMirror}) {
      if (first[i] == other[i]) continue;
      return Status(StatusCode::kMismatch,
                    fmt::format("ranks 0 and {} ask for windows of different {}: {} and {}; every "
                                "rank must pass the same",
                                r, kNames[i], first[i], other[i]));
    }
  }
  if (const int bad = failed_rank(*agreed); bad >= 0) return failure_of(*agreed, bad);

  // Second round: everybody takes the memory of its own part.
  const std::size_t part = WindowMemory::part_bytes(spec);
  const auto offset = static_cast<std::size_t>(first[kOffset]);
  next_offset_ = offset + part * static_cast<std::size_t>(size_);
  auto memory = WindowMemory::open(memory_, machines_, spec, rank_, offset);
  // Open before anybody returns from here and sends.
  if (memory.ok() && inbox_) inbox_->open(*memory);
  if (remote_) remote_->set_pace(spin(spec.threads + 1).limit.count() > 0);
  terms = {};
  terms[kCode] = static_cast<std::int64_t>(memory.status().code());
  auto done = exchange_locked(
      terms,
      platform::Deadline::after(
          timeout_, kTouchTimePerMib * (WindowMemory::machine_bytes(machines_, spec) >> 20)));
  const int bad = done.ok() ? failed_rank(*done) : -1;
  if (done.ok() && bad < 0) {
    return std::unique_ptr<Window>(new Window(shared_from_this(), std::move(memory).value(), spec));
  }
  if (memory.ok()) {
    (*memory)->abandon();
    if (inbox_) inbox_->forget(offset);
  }
  if (!done.ok()) return done.status();
  return memory.ok() ? failure_of(*done, bad) : memory.status();
}

Result<std::vector<std::shared_ptr<World>>> make_thread_worlds(int size,
                                                               std::chrono::milliseconds timeout) {
  if (Status s = check_size(size); !s.ok()) return s;
  if (Status s = check_timeout(timeout); !s.ok()) return s;
  if (Status s = platform::set_delays_from_environment(); !s.ok()) return s;
  auto memory = WorldMemory::create(size, /*locks=*/false);
  if (!memory.ok()) return memory.status();
  std::vector<std::shared_ptr<World>> worlds;
  for (int r = 0; r < size; ++r) {
    worlds.emplace_back(new World(*memory, Machines(size), r, timeout));
    if (Status s = worlds.back()->take_place(); !s.ok()) return s;
  }
  return worlds;
}

Result<std::shared_ptr<World>> join_world(int rank, int size, int fd,
                                          std::chrono::milliseconds timeout) {
  if (Status s = check_size(size); !s.ok()) return s;
  if (Status s = check_timeout(timeout); !s.ok()) return s;
  if (rank < 0 || rank >= size) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("rank {} is outside 0..{} for a world of {} ranks", rank, size - 1, size));
  }
  if (Status s = platform::set_delays_from_environment(); !s.ok()) return s;
  auto memory = WorldMemory::adopt(fd, size);
  if (!memory.ok()) return memory.status();
  platform::stop_inheriting(fd);
  std::shared_ptr<World> world(new World(*memory, Machines(size), rank, timeout));
  if (Status s = world->take_place(); !s.ok()) return s;
  if (Status s = world->barrier(); !s.ok()) return s;
  return world;
}

Result<std::shared_ptr<World>> join_machines(MachineSeat seat, std::chrono::milliseconds timeout) {
  if (Status s = check_timeout(timeout); !s.ok()) return s;
  if (Status s = platform::set_delays_from_environment(); !s.ok()) return s;
  std::shared_ptr<World> world(new World(seat.memory, seat.machines, seat.rank, timeout));
  world->link_ = seat.link;
  world->inbox_ = std::move(seat.inbox);
  world->remote_ = std::move(seat.remote);
  for (int r = 0; r < world->size(); ++r) {
    world->receiver_lost_.push_back(
        fmt::format("rank {}, which receives for this machine what it sends, ended",
                    seat.machines.receiver(seat.machines.own(), r)));
  }
  if (Status s = world->take_place(); !s.ok()) return s;
  if (Status s = world->barrier(); !s.ok()) return s;
  return world;
}

Result<int> make_rendezvous(int size) {
  if (Status s = check_size(size); !s.ok()) return s;
  auto memory = WorldMemory::create(size, /*locks=*/true);
  if (!memory.ok()) return memory.status();
  return (*memory)->file().detach();
}

void mark_ended(int fd, int size, int rank) {
  auto memory = WorldMemory::adopt(fd, size);
  if (!memory.ok()) return;
  std::atomic<RankState>& state = (*memory)->entry(rank).state;
  RankState before = state.load(std::memory_order_relaxed);
  // Release: pairs with the acquire in gone().
  while (before != RankState::left &&
         !state.compare_exchange_weak(before, RankState::ended, std::memory_order_release,
                                      std::memory_order_relaxed)) {
  }
  (*memory)->ring_all();
}

}  // namespace tandem::symm
