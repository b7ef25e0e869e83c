// SPDX-License-Identifier: Apache-2.0
//
// World over the control block: who takes part, who is alive, and how a world begins. What its
// ranks do together is in collectives.cc.
#include "symm/world.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "base/guarded.h"
#include "platform/cgroup.h"
#include "platform/delay.h"
#include "platform/process.h"
#include "platform/topology.h"
#include "symm/inbox.h"
#include "symm/world_memory.h"

namespace tandem::symm {
namespace {

// To be woken takes 5 µs on a core that is awake and up to 50 µs on one that is not (measured on a
// virtual machine). Polling for as long as that wastes at most as much time as it may save.
constexpr std::chrono::microseconds kSpinLimit{50};

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
      size_(memory_->size()),
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
  (void)base::guarded([&] {
    // Ahead of the leaving, for the reason given in ~Window().
    if (const Status failed = memory_->failure().read(); !failed.ok()) tell_failure(failed);
    tell_all({.kind = NoteKind::left_world}, {});
    return Status();
  });
  // Release: pairs with the acquire in gone(), so that all this rank's notifies are seen first.
  memory_->entry(rank_).state.store(RankState::left, std::memory_order_release);
  memory_->ring_all();
}

Status World::take_place() {
  if (memory_->locks()) {
    auto locked = memory_->lock_rank(rank_);
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
  if (memory_->locks()) promises_.emplace(promises());
  return {};
}

platform::SharedPromises World::promises() {
  return {.words = memory_->control().promised,
          .own = rank_,
          .alive = [this](int rank) { return alive(rank); },
          .lock_file = memory_->file().fd(),
          .lock_byte = kMaxRanks};  // behind those by which ranks are known to be alive
}

void World::tell(int peer, const Note& note, std::span<const std::byte> text) {
  if (remote_) remote_->tell(machines_.of(peer), note, text);
}

void World::tell_all(const Note& note, std::span<const std::byte> text) {
  for (int m = 0; remote_ && m < machines_.count(); ++m) {
    if (m != machines_.own()) remote_->tell(m, note, text);
  }
}

void World::tell_failure(const Status& failure, std::uint64_t window, bool refused) {
  tell_all({.kind = NoteKind::failure, .window = window},
           bytes_of(FailureText::of(failure, refused)));
}

Loss World::gone(int rank, bool ask_kernel) const {
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
    if (state == RankState::absent || memory_->file().locked(receiver)) return {};
    return {"its process ended", receiver};
  }
  if (!ask_kernel || !memory_->locks() || memory_->file().locked(rank)) return {};
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

Status World::check_process() const {
  if (platform::process_id() == process_) return {};
  return {StatusCode::kUnsupported,
          fmt::format("this process was forked from the one that is rank {}, and is none itself; "
                      "make a new world here, or start ranks with `tandem launch`",
                      rank_)};
}

Status World::fail(const Status& failure) {
  return base::guarded([&] {
    FailureRecord& record = memory_->failure();
    const bool first = record.publish(rank_, FailureText::of(failure));
    memory_->ring_all();
    if (first) tell_failure(failure);
    return first ? failure : record.read();
  });
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
    std::shared_ptr<World> world(new World(*memory, Machines(size), r, timeout));
    worlds.push_back(std::move(world));
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
  if (Status s = world->exchange(Collective::join, Terms{}).status(); !s.ok()) return s;
  return world;
}

Result<std::shared_ptr<World>> take_seat(MachineSeat seat, std::chrono::milliseconds timeout) {
  if (Status s = check_timeout(timeout); !s.ok()) return s;
  if (Status s = platform::set_delays_from_environment(); !s.ok()) return s;
  std::shared_ptr<World> world(new World(seat.memory, seat.machines, seat.rank, timeout));
  world->link_ = seat.link;
  world->inbox_ = std::move(seat.inbox);
  world->remote_ = std::move(seat.remote);
  world->by_network_ = true;
  if (Status s = world->take_place(); !s.ok()) return s;
  return world;
}

Status join_machines(World& world) { return world.exchange(Collective::join, Terms{}).status(); }

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
