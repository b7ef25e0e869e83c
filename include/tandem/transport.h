// SPDX-License-Identifier: Apache-2.0
//
// Which transport carries the chunks. `shm` is shared memory. `sim` is shared memory that delays
// every delivery as a network link would, so that overlap can be seen and tested on one machine.
// `mpi` is shared memory within each machine and MPI between them: what a world of several machines
// (tandem/mpi.h) uses anyway, so that `shm` means the same there.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "tandem/export.h"
#include "tandem/status.h"

namespace tandem {

enum class TransportKind : std::uint8_t { shm, sim, mpi };

[[nodiscard]] TANDEM_API std::string_view name(TransportKind kind);

/// One full-duplex link per rank: everything it sends shares the egress, everything it receives
/// the ingress. A transfer of n bytes occupies both for n / bandwidth and arrives `latency` later.
struct Link {
  double bytes_per_second = 125e6;           ///< 1 Gbit/s
  std::chrono::nanoseconds latency{50'000};  ///< 50 µs
  /// Adversarial mode: each delivery is held back by a further pseudo-random time below `jitter`,
  /// drawn from `seed`, so that chunks of different lanes and ranks arrive in another order.
  std::chrono::nanoseconds jitter{0};
  std::uint64_t seed = 0;
};

struct TransportSpec {
  TransportKind kind = TransportKind::shm;
  Link link;  ///< used by sim
};

/// Parses "1Gbit/s,50us" or "800MB/s,1ms,jitter=200us,seed=7" (bandwidth first; bit/s or B/s with
/// k, M, G; times in ns, us, ms, s).
[[nodiscard]] TANDEM_API Result<Link> parse_link(std::string_view text);

/// The text that parse_link() reads back.
[[nodiscard]] TANDEM_API std::string to_string(const Link& link);

}  // namespace tandem
