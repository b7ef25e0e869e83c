// SPDX-License-Identifier: Apache-2.0
//
// tandem::mpi::make_world(): the ranks come together, then the machines meet, then a seat in a
// symm::World like any other. Start reading at join(). Every step is bounded by one deadline.
#include "symm/world.h"

#include <optional>

#include <fmt/format.h>

#include "base/guarded.h"
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

/// What this rank has to say before it meets the others.
Status check_call(std::chrono::milliseconds timeout, Result<std::optional<std::int64_t>>& piece) {
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
/// has heard it: who comes too late finds there that others have given up. The third is of the
/// duplicate, which MPI may have denied to some.
Result<OwnComm> gather_ranks(RollCall& roll, MPI_Comm comm, const Status& own) {
  for (const Status& said : {own, Status()}) {
    if (Status s = roll.agree("come to make_world()", said); !s.ok()) return s;
  }
  auto made = OwnComm::duplicate(comm, roll.deadline());
  if (Status s = roll.agree("duplicate the communicator", made.status()); !s.ok()) return s;
  return made;
}

/// On the library's communicator: who shares memory, how fast the network is, and this rank's seat.
/// A bridge takes `comm` over.
Result<symm::MachineSeat> find_seat(RollCall& roll, OwnComm& comm, std::uint64_t most,
                                    std::chrono::milliseconds timeout) {
  auto met = meet(roll, most);
  if (!met.ok()) return met.status();
  symm::MachineSeat seat{.memory = met->memory, .machines = met->machines, .rank = roll.rank()};
  const int machines = seat.machines.count();
  if (Status s = roll.agree("call MPI from a thread", check_threads(machines)); !s.ok()) return s;
  if (machines == 1) return seat;
  auto link = probe_link(roll, comm.get(), seat.machines);
  if (!link.ok()) return link.status();
  seat.link = *link;
  const Status started = base::guarded([&] {
    seat.inbox = std::make_shared<symm::Inbox>(seat.memory, seat.machines, seat.rank);
    auto bridge = Bridge::start(comm.get(), seat.machines, seat.rank, seat.inbox,
                                {.sizes = message_sizes(seat.link, most), .farewell = timeout});
    if (bridge.ok()) {
      (void)comm.release();
      seat.remote = std::move(bridge).value();
    }
    return bridge.status();
  });
  if (Status s = roll.agree("start to serve the network", started); !s.ok()) return s;
  return seat;
}

Result<World> join(MPI_Comm comm, std::chrono::milliseconds timeout) {
  int size = 1;
  MPI_Comm_size(comm, &size);
  if (size > kMaxRanks) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("the communicator has {} ranks; a world has at most {}: split it with "
                    "MPI_Comm_split, or start fewer ranks with more threads each",
                    size, kMaxRanks));
  }
  const auto deadline = platform::Deadline::after(timeout);
  const ErrorsReturn errors(comm);
  const auto attempt = count_attempt(comm);
  if (!attempt.ok()) return attempt.status();
  Result<std::optional<std::int64_t>> piece = std::optional<std::int64_t>();
  const Status own_call = check_call(timeout, piece);

  RollCall hello(comm, kHelloTag, *attempt, deadline);
  auto own = gather_ranks(hello, comm, own_call);
  if (!own.ok()) return own.status();
  const auto most = static_cast<std::uint64_t>(piece->value_or(kPieceBytes));
  auto roll = std::make_unique<RollCall>(own->get(), kRoll, 0, deadline);
  auto seat = find_seat(*roll, *own, most, timeout);
  // A communicator that MPI still works on stays.
  if (!roll->finish()) (void)own->release();
  if (!seat.ok()) return seat.status();
  roll.reset();
  auto world = symm::join_machines(std::move(seat).value(), timeout);
  if (!world.ok()) return world.status();
  return World(std::move(world).value());
}

}  // namespace

Result<World> make_world(MPI_Comm comm, WorldOptions options) {
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
  return base::guarded([&] { return join(comm, options.timeout); });
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
