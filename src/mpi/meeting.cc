// SPDX-License-Identifier: Apache-2.0
//
// The meeting. Every rank listens under a random name and learns all names through MPI. The lowest
// rank that one can connect to is one's leader; it hands over the descriptor of the memory file,
// which the joiner believes when it finds the leader's nonce in it.
#include "mpi/meeting.h"

#include <array>
#include <vector>

#include <fmt/format.h>

#include "mpi/requests.h"
#include "platform/environment.h"
#include "platform/local_socket.h"
#include "symm/note.h"

namespace tandem::mpi {
namespace {

/// What a rank says of itself. Plain bytes of one layout, or the magic number differs.
struct Introduction {
  std::uint64_t magic = symm::kMagic;
  std::uint32_t layout = symm::kLayoutVersion;
  std::uint32_t note_bytes = sizeof(symm::Note) + sizeof(symm::Cargo);
  std::uint64_t piece_bytes = 0;
  platform::SocketName name{};
  std::array<std::uint64_t, 2> nonce{};
};

Result<std::vector<Introduction>> introduce(MPI_Comm comm, int size, const Introduction& own) {
  std::vector<Introduction> all(static_cast<std::size_t>(size));
  Status s =
      check(MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, comm),
            "introduce the ranks to each other");
  if (!s.ok()) return s;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const Introduction& other = all[r];
    if (other.magic == all[0].magic && other.layout == all[0].layout &&
        other.note_bytes == all[0].note_bytes && other.piece_bytes == all[0].piece_bytes) {
      continue;
    }
    return Status(
        StatusCode::kMismatch,
        fmt::format("ranks 0 and {} run different versions of Tandem (layouts {} and {}), "
                    "another byte order, or another TANDEM_TEST_PIECE_BYTES; install one "
                    "version on all machines",
                    r, all[0].layout, other.layout));
  }
  return all;
}

/// The lowest rank that can be reached; a connection to it, unless that is oneself.
int find_leader(const std::vector<Introduction>& all, int rank, std::int64_t machine_size,
                platform::LocalSocket& connection) {
  for (int r = 0; r < rank; ++r) {
    if (machine_size > 0 && r / machine_size != rank / machine_size) continue;
    if (connection.connect(all[static_cast<std::size_t>(r)].name)) return r;
  }
  return rank;
}

Status found_machine(const symm::Machines& machines, const Introduction& own,
                     platform::LocalListener& listener, platform::Deadline deadline, int size,
                     std::shared_ptr<symm::WorldMemory>& memory) {
  auto made = symm::WorldMemory::create(size, /*locks=*/true);
  if (!made.ok()) return made.status();
  memory = std::move(made).value();
  memory->control().nonce = own.nonce;
  for (int r = 0; r < size; ++r) {
    if (machines.local(r)) continue;
    memory->entry(r).state.store(symm::RankState::joined, std::memory_order_release);
  }
  for (std::size_t joiner = 1; joiner < machines.local_ranks().size(); ++joiner) {
    auto peer = listener.accept(deadline);
    if (!peer.ok()) return peer.status();
    if (Status s = peer->send_descriptor(memory->file().fd()); !s.ok()) return s;
  }
  return {};
}

Status join_machine(const Introduction& leader, platform::LocalSocket& connection,
                    platform::Deadline deadline, int size,
                    std::shared_ptr<symm::WorldMemory>& memory) {
  const auto fd = connection.receive_descriptor(deadline);
  if (!fd.ok()) return fd.status();
  auto adopted = symm::WorldMemory::adopt(*fd, size);
  platform::close_descriptor(*fd);
  if (!adopted.ok()) return adopted.status();
  memory = std::move(adopted).value();
  if (memory->control().nonce == leader.nonce) return {};
  return {StatusCode::kMismatch,
          "the memory that another process of this machine handed over is not that of this job; "
          "start the job again"};
}

}  // namespace

Status agree(MPI_Comm comm, const Status& own) {
  int size = 1;
  MPI_Comm_size(comm, &size);
  const int code = static_cast<int>(own.code());
  std::vector<int> codes(static_cast<std::size_t>(size));
  Status gathered = check(MPI_Allgather(&code, 1, MPI_INT, codes.data(), 1, MPI_INT, comm),
                          "ask every rank how it fared");
  if (!own.ok()) return own;
  if (!gathered.ok()) return gathered;
  for (std::size_t r = 0; r < codes.size(); ++r) {
    const auto other = static_cast<StatusCode>(codes[r]);
    if (other == StatusCode::kOk) continue;
    return {other, fmt::format("rank {} could not join the world ({}); its own message says why", r,
                               name(other))};
  }
  return {};
}

Result<Meeting> meet(MPI_Comm comm, std::uint64_t piece_bytes, std::chrono::milliseconds timeout) {
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const auto deadline = platform::Deadline::after(timeout);

  // For tests: so many successive ranks to a machine, although they could share memory.
  const auto machine_size = platform::env_integer("TANDEM_TEST_MACHINES", 1, kMaxRanks);
  Introduction own{.piece_bytes = piece_bytes};
  const auto random = platform::random_name(), nonce = platform::random_name();
  if (random.ok()) own.name = *random;
  if (nonce.ok()) own.nonce = *nonce;
  auto listener = platform::LocalListener::create(own.name);
  Status ready = machine_size.status();
  for (const Status& s : {random.status(), nonce.status(), listener.status()}) {
    if (ready.ok()) ready = s;
  }
  if (Status s = agree(comm, ready); !s.ok()) return s;
  auto all = introduce(comm, size, own);
  if (!all.ok()) return all.status();

  platform::LocalSocket connection;
  const int leader = find_leader(*all, rank, machine_size->value_or(0), connection);
  std::vector<int> leaders(static_cast<std::size_t>(size));
  if (Status s = check(MPI_Allgather(&leader, 1, MPI_INT, leaders.data(), 1, MPI_INT, comm),
                       "agree on the machines");
      !s.ok()) {
    return s;
  }
  for (int r = 0; r < size; ++r) {
    const int first = leaders[static_cast<std::size_t>(r)];
    const int above = leaders[static_cast<std::size_t>(first)];
    if (above == first) continue;
    return Status(StatusCode::kIo,
                  fmt::format("rank {} can reach rank {} by a local socket, and that one rank {}, "
                              "but rank {} cannot: give all ranks of a machine one network "
                              "namespace and one user",
                              r, first, above, r));
  }
  Meeting meeting{.machines = symm::Machines(leaders, rank), .memory = {}};
  Status met = leader == rank
                   ? found_machine(meeting.machines, own, *listener, deadline, size, meeting.memory)
                   : join_machine((*all)[static_cast<std::size_t>(leader)], connection, deadline,
                                  size, meeting.memory);
  if (Status s = agree(comm, met); !s.ok()) return s;
  return meeting;
}

}  // namespace tandem::mpi
