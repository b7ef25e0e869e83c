// SPDX-License-Identifier: Apache-2.0
//
// Ping-pong between the lowest ranks of two machines.
#include "mpi/link_probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

namespace tandem::mpi {
namespace {

constexpr int kTag = 3;
constexpr int kPings = 8;
/// Long enough for the rate to show behind a shaper's burst.
constexpr int kShort = 64 << 10, kLong = 2 << 20;
/// Where the short message takes this long, it says enough.
constexpr double kSlow = 0.02;

/// Seconds from sending `bytes` to the other's one-byte answer.
double round_trip(MPI_Comm comm, int peer, std::vector<char>& buffer, int bytes) {
  const double start = MPI_Wtime();
  MPI_Send(buffer.data(), bytes, MPI_CHAR, peer, kTag, comm);
  MPI_Recv(buffer.data(), 1, MPI_CHAR, peer, kTag, comm, MPI_STATUS_IGNORE);
  return MPI_Wtime() - start;
}

/// The other side: answers messages until an empty one.
void answer(MPI_Comm comm, std::vector<char>& buffer) {
  for (int bytes = 1; bytes > 0;) {
    MPI_Status status;
    MPI_Recv(buffer.data(), kLong, MPI_CHAR, 0, kTag, comm, &status);
    MPI_Get_count(&status, MPI_CHAR, &bytes);
    if (bytes > 0) MPI_Send(buffer.data(), 1, MPI_CHAR, 0, kTag, comm);
  }
}

}  // namespace

Link probe_link(MPI_Comm comm, const symm::Machines& machines, int rank) {
  std::vector<char> buffer(kLong);
  std::array<double, 2> slowest{0, 0};  // round trip, seconds per byte
  for (int m = 1; m < machines.count(); ++m) {
    const int peer = machines.ranks(m).front();
    if (rank == peer) answer(comm, buffer);
    if (rank != 0) continue;
    double ping = round_trip(comm, peer, buffer, 1);
    for (int i = 1; i < kPings; ++i) ping = std::min(ping, round_trip(comm, peer, buffer, 1));
    double took = round_trip(comm, peer, buffer, kShort), bytes = kShort;
    if (took < kSlow) {
      (void)round_trip(comm, peer, buffer, kLong);  // opens TCP's window
      took = round_trip(comm, peer, buffer, kLong);
      bytes = kLong;
    }
    MPI_Send(buffer.data(), 0, MPI_CHAR, peer, kTag, comm);
    slowest[0] = std::max(slowest[0], ping);
    slowest[1] = std::max(slowest[1], std::max(took - ping, took / 10) / bytes);
  }
  MPI_Bcast(slowest.data(), 2, MPI_DOUBLE, 0, comm);
  Link link;
  if (slowest[1] > 0) link.bytes_per_second = 1 / slowest[1];
  link.latency = std::chrono::nanoseconds(static_cast<std::int64_t>(slowest[0] / 2 * 1e9));
  return link;
}

}  // namespace tandem::mpi
