// SPDX-License-Identifier: Apache-2.0
//
// tandem::mpi::make_world(): the ranks come together, then the machines meet, then a seat in a
// symm::World like any other. Start reading at join(). Every step is bounded by one deadline.
#include "symm/world.h"

#include <optional>

#include <fmt/format.h>

#include "base/guarded.h"
#include "mpi/abort_channel.h"
#include "mpi/bridge.h"
#include "mpi/communicator.h"
#include "mpi/link_probe.h"
#include "mpi/meeting.h"
#include "mpi/roll_call.h"
#include "platform/environment.h"
#include "symm/inbox.h"
#include "tandem/mpi.h"

namespace tandem::mpi {
namespace {

/// A message of 1 GiB: MPI counts bytes in an int.
constexpr std::int64_t kPieceBytes = std::int64_t{1} << 30;

const char* level_name(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE:
      return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
      return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
      return "MPI_THREAD_SERIALIZED";
    case MPI_THREAD_MULTIPLE:
      return "MPI_THREAD_MULTIPLE";
    default:
      return "an unknown thread level";
  }
}

bool is_running() {
  int begun = 0, ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  return begun != 0 && ended == 0;
}

Status check_threads(int machines) {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (machines == 1 || level == MPI_THREAD_MULTIPLE) return {};
  return {
      StatusCode::kUnsupported,
      fmt::format("MPI grants {}, and a world of {} machines needs MPI_THREAD_MULTIPLE: a thread "
                  "of the library calls MPI beside yours; call MPI_Init_thread(&argc, &argv, "
                  "MPI_THREAD_MULTIPLE, &granted), and use an MPI that grants it",
                  level_name(level), machines)};
}

/// Successive attempts use different tags, so that what is left of one is not in the way of the
/// next, and a rank that is ahead does not disturb one that is behind. By the time that the tags
/// come again, whoever is that far behind has been given up.
struct Tags {
  explicit Tags(std::uint32_t attempt)
      : hello(kHighestTag - 2 * static_cast<int>(attempt % 4)), abort(hello - 1) {}
  const int hello, abort;
};
static_assert(kHighestTag - kLowestTag + 1 == 2 * 4);

using Timeout = Result<std::chrono::milliseconds>;

/// What this rank has to say before it meets the others.
Status check_call(const Timeout& asked, std::chrono::milliseconds timeout,
                  Result<std::optional<std::int64_t>>& piece) {
  if (!asked.ok()) return asked.status();
  if (timeout.count() < 1) {
    return {StatusCode::kInvalidArgument,
            fmt::format("the timeout is {} ms; it must be at least 1 ms", timeout.count())};
  }
  // For tests: a lower limit of a message, so that few bytes need several.
  piece = platform::env_integer("TANDEM_TEST_PIECE_BYTES", 1, kPieceBytes);
  return piece.status();
}

/// On the caller's communicator: everybody is there, and has one of the library's own. In the first
/// round everybody hears who is there and what is wrong with its call, in the second that everybody
/// has heard it: who comes too late finds there that others have given up. After it every rank
/// takes part in the duplication, which MPI might not forgive otherwise. The third is of the
/// duplicate, which MPI may have denied to some.
Result<OwnComm> gather_ranks(RollCall& roll, MPI_Comm comm, const Status& own) {
  constexpr const char* kCome = "come to make_world()";
  Duplication duplication;
  if (Status s = roll.agree(kCome, own); !s.ok()) return s;
  if (Status s = roll.meet(kCome); !s.ok()) return s;
  auto made = duplication.run(comm, roll.deadline(), [&] { return roll.heard(); });
  if (Status s = roll.agree("duplicate the communicator", made.status()); !s.ok()) return s;
  return made;
}

/// The thread that serves the network, which takes `comm` over.
Status start_serving(symm::MachineSeat& seat, OwnComm& comm, const MessageSizes& sizes,
                     std::chrono::milliseconds timeout) {
  seat.inbox = std::make_shared<symm::Inbox>(seat.memory, seat.machines, seat.rank);
  auto bridge = Bridge::start(comm.get(), seat.machines, seat.rank, seat.inbox,
                              {.sizes = sizes, .farewell = timeout});
  if (!bridge.ok()) return bridge.status();
  (void)comm.release();
  seat.remote = std::move(bridge).value();
  return {};
}

/// On the library's communicator: who shares memory, how fast the network is, and this rank's place
/// in the world. What fails later is the world's to tell.
Result<std::shared_ptr<symm::World>> take_place(RollCall& roll, OwnComm& comm, std::uint64_t most,
                                                std::chrono::milliseconds timeout) {
  auto met = meet(roll, most);
  if (!met.ok()) return met.status();
  symm::MachineSeat seat{.memory = met->memory, .machines = met->machines, .rank = roll.rank()};
  const int machines = seat.machines.count();
  if (Status s = roll.agree("call MPI from a thread", check_threads(machines)); !s.ok()) return s;
  if (machines > 1) {
    auto link = probe_link(roll, comm.get(), seat.machines);
    if (!link.ok()) return link.status();
    seat.link = *link;
  }
  auto placed = base::guarded([&]() -> Result<std::shared_ptr<symm::World>> {
    if (machines > 1) {
      Status s = start_serving(seat, comm, message_sizes(seat.link, most), timeout);
      if (!s.ok()) return s;
    }
    return symm::take_seat(std::move(seat), timeout);
  });
  if (Status s = roll.agree("take its place in the world", placed.status()); !s.ok()) return s;
  return placed;
}

Result<World> join(MPI_Comm comm, const Timeout& asked, std::uint32_t attempt,
                   AbortChannel& abort) {
  const std::chrono::milliseconds timeout = asked.ok() ? *asked : WorldOptions().timeout;
  const auto deadline = platform::Deadline::after(timeout);
  Result<std::optional<std::int64_t>> piece = std::optional<std::int64_t>();
  const Status own_call = check_call(asked, timeout, piece);

  RollCall hello(comm, Tags(attempt).hello, attempt, deadline, abort);
  auto own = gather_ranks(hello, comm, own_call);
  if (!own.ok()) return own.status();
  const auto most = static_cast<std::uint64_t>(piece->value_or(kPieceBytes));
  auto roll = std::make_unique<RollCall>(own->get(), kRoll, 0, deadline, abort);
  auto placed = take_place(*roll, *own, most, timeout);
  // A communicator that MPI still works on stays, and one on which others may still send: it would
  // be taken for the next that gets its place.
  if (!roll->finish() || !placed.ok()) (void)own->release();
  if (!placed.ok()) return placed.status();
  if (Status s = symm::join_machines(**placed); !s.ok()) return s;
  return World(std::move(placed).value());
}

Result<World> start(MPI_Comm comm, const Timeout& timeout) {
  if (!is_running()) {
    return Status(StatusCode::kUnsupported,
                  "MPI is not initialised, or ended already: call MPI_Init_thread(&argc, &argv, "
                  "MPI_THREAD_MULTIPLE, &granted) before, and MPI_Finalize() after the world");
  }
  if (comm == MPI_COMM_NULL) {
    return Status(
        StatusCode::kInvalidArgument,
        "the communicator is MPI_COMM_NULL, as MPI_Comm_split gives it to ranks without a "
        "colour; only its members may call make_world()");
  }
  int size = 1;
  MPI_Comm_size(comm, &size);
  if (size > kMaxRanks) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("the communicator has {} ranks; a world has at most {}: split it with "
                    "MPI_Comm_split, or start fewer ranks with more threads each",
                    size, kMaxRanks));
  }
  const ErrorsReturn errors(comm);
  const auto attempt = count_attempt(comm);
  if (!attempt.ok()) return attempt.status();
  AbortChannel abort(comm, Tags(*attempt).abort, *attempt);
  auto world = base::guarded([&] { return join(comm, timeout, *attempt, abort); });
  if (!world.ok()) abort.tell(world.status());
  return world;
}

}  // namespace

Result<World> make_world(MPI_Comm comm, WorldOptions options) {
  return base::guarded([&] { return start(comm, options.timeout); });
}

Result<World> make_world(MPI_Comm comm) {
  const Timeout timeout =
      base::guarded([] { return platform::env_timeout(WorldOptions().timeout); });
  return base::guarded([&] { return start(comm, timeout); });
}

std::string describe() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string library(text, static_cast<std::size_t>(length));
  library = library.substr(0, library.find_first_of(",\n"));
  if (!is_running()) return library;
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  return fmt::format("{}, thread level {}", library, level_name(level));
}

}  // namespace tandem::mpi
