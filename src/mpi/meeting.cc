// SPDX-License-Identifier: Apache-2.0
//
// The meeting. Every rank opens a door under a random name and learns all names through MPI. The
// lowest rank that one can connect to is one's leader; it hands over the descriptor of the memory
// file, which the joiner believes when it finds the leader's nonce in it. Start reading at meet().
#include "mpi/meeting.h"

#include <array>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/guarded.h"
#include "mpi/door.h"
#include "platform/environment.h"
#include "platform/host.h"
#include "platform/local_socket.h"
#include "symm/note.h"

namespace tandem::mpi {
namespace {

/// Between two looks at who waits at the door.
constexpr std::chrono::microseconds kKnock{200};

/// What a rank says of itself. Plain bytes of one layout, or the magic number differs.
struct Introduction {
  std::uint64_t magic = symm::kMagic;
  std::uint32_t layout = symm::kLayoutVersion;
  std::uint32_t note_bytes = sizeof(symm::Note) + sizeof(symm::Cargo);
  std::uint64_t piece_bytes = 0;
  platform::SocketName name{};
  Word nonce{};
  platform::Locality locality;
};

/// What a rank brings to the meeting.
struct Visitor {
  Introduction own;
  std::int64_t machine_size = 0;  ///< for tests: 0, or so many successive ranks to a machine
  std::optional<Door> door;
};

Status prepare(Visitor& visitor) {
  // For tests: machines that are none, although their ranks could share memory.
  const auto machine_size = platform::env_integer("TANDEM_TEST_MACHINES", 1, kMaxRanks);
  if (!machine_size.ok()) return machine_size.status();
  visitor.machine_size = machine_size->value_or(0);
  const auto name = platform::random_name(), nonce = platform::random_name();
  if (!name.ok()) return name.status();
  if (!nonce.ok()) return nonce.status();
  visitor.own.name = *name;
  visitor.own.nonce = *nonce;
  visitor.own.locality = platform::locality();
  auto door = Door::open(visitor.own.name, visitor.own.nonce);
  if (!door.ok()) return door.status();
  visitor.door = std::move(door).value();
  return {};
}

Result<std::vector<Introduction>> introduce(RollCall& roll, const Introduction& own) {
  auto all = roll.gather("introduce themselves", own);
  if (!all.ok()) return all.status();
  const Introduction& first = all->front();
  for (int r = 0; r < roll.size(); ++r) {
    const Introduction& other = (*all)[static_cast<std::size_t>(r)];
    if (other.magic == first.magic && other.layout == first.layout &&
        other.note_bytes == first.note_bytes && other.piece_bytes == first.piece_bytes) {
      continue;
    }
    return Status(
        StatusCode::kMismatch,
        fmt::format("ranks 0 and {} run different versions of Tandem (layouts {} and {}), "
                    "another byte order, or another TANDEM_TEST_PIECE_BYTES; install one "
                    "version on all machines",
                    r, first.layout, other.layout));
  }
  return all;
}

/// Whether one can connect to a rank, which is tried until that is certain. Meanwhile one's own
/// queue is kept short, where others may be trying the same.
Result<bool> reach(const RollCall& roll, int peer, const Introduction& there, Visitor& visitor,
                   platform::LocalSocket& connection) {
  for (;;) {
    const auto found = connection.connect(there.name);
    if (!found.ok()) return found.status();
    if (*found == platform::Reach::connected &&
        Door::announce(connection, there.nonce, roll.rank()).ok()) {
      return true;
    }
    if (*found == platform::Reach::absent || *found == platform::Reach::other_user) {
      if (!there.locality.same_as(visitor.own.locality)) return false;
      return Status(
          StatusCode::kIo,
          fmt::format(
              "{} and {} have one kernel, one network namespace and one user, but {}: it may "
              "have ended, or a security policy keeps local sockets apart; without them the "
              "two cannot share memory",
              roll.name(roll.rank()), roll.name(peer),
              *found == platform::Reach::absent ? "no local socket reaches the other"
                                                : "the other's local socket is not its own"));
    }
    if (roll.deadline().passed()) {
      return Status(
          StatusCode::kTimeout,
          fmt::format("{} is on this machine, but its local socket was busy until the deadline: "
                      "other processes connect to it all the time; find out who connects to the "
                      "names tandem-… of /proc/net/unix, or allow more time (WorldOptions.timeout)",
                      roll.name(peer)));
    }
    if (Status s = visitor.door->tend(); !s.ok()) return s;
    if (Status s = roll.heard(); !s.ok()) return s;
    platform::sleep_until(platform::Clock::now() + kKnock);
  }
}

/// The lowest rank that can be reached; a connection to it, unless that is oneself.
Result<int> find_leader(const RollCall& roll, const std::vector<Introduction>& all,
                        Visitor& visitor, platform::LocalSocket& connection) {
  const int rank = roll.rank();
  const std::int64_t size = visitor.machine_size;
  for (int r = 0; r < rank; ++r) {
    if (size > 0 && r / size != rank / size) continue;
    const auto reached = reach(roll, r, all[static_cast<std::size_t>(r)], visitor, connection);
    if (!reached.ok()) return reached.status();
    if (*reached) return r;
  }
  return rank;
}

/// Why a rank that ended in the middle of this is an error.
Status lost(const RollCall& roll, int rank, const char* what) {
  return {
      StatusCode::kPeerLost,
      fmt::format("{} is lost (its process ended) before it could {}; restart all ranks, and look "
                  "at how rank {} ended",
                  roll.name(rank), what, rank),
      WaitDetail{.rank = rank}};
}

Result<std::shared_ptr<symm::WorldMemory>> found_machine(const RollCall& roll,
                                                         const symm::Machines& machines,
                                                         Visitor& visitor) {
  auto made = symm::WorldMemory::create(roll.size(), /*locks=*/true);
  if (!made.ok()) return made.status();
  symm::WorldMemory& memory = **made;
  memory.control().nonce = visitor.own.nonce;
  for (int r = 0; r < roll.size(); ++r) {
    if (machines.local(r)) continue;
    memory.entry(r).state.store(symm::RankState::joined, std::memory_order_release);
  }
  for (int r : machines.local_ranks()) {
    while (r != roll.rank() && !visitor.door->admitted().contains(r)) {
      if (Status s = visitor.door->tend(); !s.ok()) return s;
      if (visitor.door->admitted().contains(r)) break;
      if (Status s = roll.heard(); !s.ok()) return s;
      if (roll.deadline().passed()) {
        return Status(StatusCode::kTimeout,
                      fmt::format("{} of this machine did not come for the memory that all share; "
                                  "look at how it ended, or allow more time (WorldOptions.timeout)",
                                  roll.name(r)));
      }
      platform::sleep_until(platform::Clock::now() + kKnock);
    }
  }
  const auto gone = visitor.door->hand_over(memory.file().fd());
  if (gone) return lost(roll, *gone, "take the memory that its machine shares");
  return made;
}

Result<std::shared_ptr<symm::WorldMemory>> join_machine(const RollCall& roll, int leader_rank,
                                                        const Introduction& leader,
                                                        platform::LocalSocket& connection) {
  const auto fd = connection.receive_descriptor(roll.deadline());
  if (fd.status().code() == StatusCode::kPeerLost) {
    return lost(roll, leader_rank, "hand over the memory that its machine shares");
  }
  if (!fd.ok()) return fd.status();
  auto adopted = symm::WorldMemory::adopt(*fd, roll.size());
  platform::close_descriptor(*fd);
  if (!adopted.ok()) return adopted.status();
  if ((*adopted)->control().nonce == leader.nonce) return adopted;
  return Status(StatusCode::kMismatch,
                "the memory that another process of this machine handed over is not that of this "
                "job; start the job again");
}

/// A leader is its own, and all of a machine have the same.
Status check_leaders(const RollCall& roll, const std::vector<int>& leaders) {
  for (int r = 0; r < roll.size(); ++r) {
    const int first = leaders[static_cast<std::size_t>(r)];
    const bool known = first >= 0 && first <= r;
    const int above = known ? leaders[static_cast<std::size_t>(first)] : first;
    if (known && above == first) continue;
    return {StatusCode::kIo,
            fmt::format("rank {} can reach rank {} by a local socket, and that one rank {}, "
                        "but rank {} cannot: give all ranks of a machine one network "
                        "namespace and one user",
                        r, first, above, r)};
  }
  return {};
}

}  // namespace

Result<Meeting> meet(RollCall& roll, std::uint64_t piece_bytes) {
  Visitor visitor{.own = {.piece_bytes = piece_bytes}};
  const Status ready = base::guarded([&] { return prepare(visitor); });
  if (Status s = roll.agree("open a local socket", ready); !s.ok()) return s;
  const auto all = introduce(roll, visitor.own);
  if (!all.ok()) return all.status();

  platform::LocalSocket connection;
  const auto leader = base::guarded([&] { return find_leader(roll, *all, visitor, connection); });
  // Others may still be at this rank's door.
  const auto tend = [&] { return visitor.door->tend(); };
  if (Status s = roll.agree("reach the ranks of its machine", leader.status(), tend); !s.ok()) {
    return s;
  }
  const auto leaders = roll.gather("agree on the machines", *leader, tend);
  if (!leaders.ok()) return leaders.status();
  if (Status s = check_leaders(roll, *leaders); !s.ok()) return s;

  Meeting meeting{.machines = symm::Machines(*leaders, roll.rank()), .memory = {}};
  auto met = base::guarded([&] {
    return *leader == roll.rank()
               ? found_machine(roll, meeting.machines, visitor)
               : join_machine(roll, *leader, (*all)[static_cast<std::size_t>(*leader)], connection);
  });
  if (Status s = roll.agree("share memory with its machine", met.status()); !s.ok()) return s;
  meeting.memory = std::move(met).value();
  return meeting;
}

}  // namespace tandem::mpi
