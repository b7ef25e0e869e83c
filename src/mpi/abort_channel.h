// SPDX-License-Identifier: Apache-2.0
//
// AbortChannel: how a rank that cannot go on in make_world() says so to all others, wherever in it
// they are, so that nobody waits for it until the deadline. It needs no memory of its own: want of
// memory is one of the reasons. Used by make_world() and RollCall.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <mpi.h>

#include "tandem/status.h"

namespace tandem::mpi {

class AbortChannel {
 public:
  /// On `comm`, whose errors come back. Messages have the tag `tag`; `attempt` tells them from
  /// those of other calls of make_world() on `comm`.
  AbortChannel(MPI_Comm comm, int tag, std::uint32_t attempt);

  /// What one rank said.
  struct Abort {
    int rank = 0;
    Status why;
  };
  /// Takes in what has come; never waits. Empty while nobody gives up. Errors: kIo.
  [[nodiscard]] Result<std::optional<Abort>> heard() const;

  /// All others know already what this rank could say.
  void settle() { settled_ = true; }
  /// Says to all why this rank gives up, unless that is settled. May take a moment (200 ms) where
  /// one of them does not take it.
  void tell(const Status& why) const noexcept;

 private:
  const MPI_Comm comm_;
  const int tag_;
  const std::uint32_t attempt_;
  int rank_ = 0, size_ = 1;
  bool settled_ = false;
};

}  // namespace tandem::mpi
