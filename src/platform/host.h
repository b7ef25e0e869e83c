// SPDX-License-Identifier: Apache-2.0
//
// What tells a host from others, for people and for ranks that look for each other: its name, its
// network interfaces, and which kernel, namespaces and user a process has. Used by src/mpi.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/internal_api.h"

namespace tandem::platform {

/// As `hostname` prints it; "?" where that cannot be had.
[[nodiscard]] TANDEM_INTERNAL_API std::string host_name();

/// The network interfaces that are up, with their addresses: "eth0 10.0.0.1, lo 127.0.0.1". Of IPv6
/// without those of the link only; at most a dozen. "none" when there are none.
[[nodiscard]] TANDEM_INTERNAL_API std::string network_interfaces();

/// Where a process runs, as far as local sockets care: processes with the same one reach each other
/// by them, or something is wrong. Plain bytes, to be compared between processes.
struct Locality {
  std::array<std::uint64_t, 2> kernel{};  ///< random, drawn when it booted
  std::uint64_t network = 0;              ///< its namespace
  std::uint64_t users = 0;                ///< their namespace
  std::uint64_t user = 0;
  std::uint64_t known = 0;  ///< 0 where there is no /proc to ask

  [[nodiscard]] bool same_as(const Locality& other) const { return known != 0 && *this == other; }
  [[nodiscard]] bool operator==(const Locality&) const = default;
};
[[nodiscard]] TANDEM_INTERNAL_API Locality locality();

}  // namespace tandem::platform
