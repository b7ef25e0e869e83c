// SPDX-License-Identifier: Apache-2.0
//
// tandem::mpi::make_world(): what MPI must grant, the meeting of the machines, then a seat in a
// symm::World like any other.
#include "symm/world.h"

#include <fmt/format.h>

#include "mpi/bridge.h"
#include "mpi/link_probe.h"
#include "mpi/meeting.h"
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

/// A communicator of the library's own, whose errors come back instead of ending the job.
class OwnComm {
 public:
  explicit OwnComm(MPI_Comm comm) {
    if (MPI_Comm_dup(comm, &comm_) == MPI_SUCCESS) {
      MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    }
  }
  ~OwnComm() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  OwnComm(const OwnComm&) = delete;
  OwnComm& operator=(const OwnComm&) = delete;
  [[nodiscard]] MPI_Comm get() const { return comm_; }
  [[nodiscard]] MPI_Comm release() { return std::exchange(comm_, MPI_COMM_NULL); }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace

Result<World> make_world(MPI_Comm comm, WorldOptions options) {
  if (!is_running()) {
    return Status(StatusCode::kUnsupported,
                  "MPI is not initialised, or ended already: call MPI_Init_thread(&argc, &argv, "
                  "MPI_THREAD_MULTIPLE, &granted) before, and MPI_Finalize() after the world");
  }
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  if (size > kMaxRanks) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("the communicator has {} ranks; a world has at most {}: split it with "
                    "MPI_Comm_split, or start fewer ranks with more threads each",
                    size, kMaxRanks));
  }
  OwnComm own(comm);
  const MPI_Comm inner = own.get();
  // For tests: a lower limit of a message, so that few bytes need several.
  const auto piece_bytes = platform::env_integer("TANDEM_TEST_PIECE_BYTES", 1, kPieceBytes);
  if (Status s = agree(inner, piece_bytes.status()); !s.ok()) return s;
  const auto most = static_cast<std::uint64_t>(piece_bytes->value_or(kPieceBytes));

  auto met = meet(inner, most, options.timeout);
  if (!met.ok()) return met.status();
  symm::MachineSeat seat{.memory = met->memory, .machines = met->machines, .rank = rank};
  Status ready = check_threads(met->machines.count());
  if (met->machines.count() > 1) seat.link = probe_link(inner, met->machines, rank);
  if (ready.ok() && met->machines.count() > 1) {
    seat.inbox = std::make_shared<symm::Inbox>(seat.memory, seat.machines, rank);
    auto bridge =
        Bridge::start(inner, seat.machines, rank, seat.inbox,
                      {.sizes = message_sizes(seat.link, most), .farewell = options.timeout});
    ready = bridge.status();
    if (ready.ok()) {
      (void)own.release();
      seat.remote = std::move(bridge).value();
    }
  }
  if (Status s = agree(inner, ready); !s.ok()) return s;
  auto world = symm::join_machines(std::move(seat), options.timeout);
  if (!world.ok()) return world.status();
  return World(std::move(world).value());
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
