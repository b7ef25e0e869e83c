// SPDX-License-Identifier: Apache-2.0
//
// Requests: the MPI operations under way, each with what is to be done when it has ended. One
// thread uses it: the bridge's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include <mpi.h>

#include "mpi/pieces.h"
#include "tandem/status.h"

namespace tandem::mpi {

/// Ok, or kIo with MPI's own words for `code`, the result of `what`.
[[nodiscard]] Status check(int code, std::string_view what);

class Requests {
 public:
  /// Gets the number of bytes that a receive brought.
  using Done = std::function<void(int bytes)>;

  explicit Requests(MPI_Comm comm) : comm_(comm) {}

  Status send(const void* from, int bytes, int rank, int tag, Done done);
  Status receive(void* to, int bytes, int rank, int tag, Done done);
  /// A piece of a rectangle whose rows lie `pitch` bytes apart. `base` is that of the rectangle, or
  /// of the extra bytes where the piece is of those. Sending ends when the receiver takes the
  /// piece: what MPI has to keep, on either side, is never more than the sender has under way.
  Status send(const std::byte* base, std::size_t pitch, const Piece& piece, int rank, int tag,
              Done done);
  Status receive(std::byte* base, std::size_t pitch, const Piece& piece, int rank, int tag,
                 Done done);

  /// Lets MPI make progress and does what is to be done; returns how many operations ended.
  Result<int> poll();

  [[nodiscard]] bool empty() const { return requests_.empty(); }
  /// Withdraws receives that nobody has answered, so that their memory is free again. False when
  /// something is left that MPI may still touch.
  bool withdraw();

 private:
  template <class Operation>
  Status begin(std::string_view what, Done done, Operation operation);

  const MPI_Comm comm_;
  std::vector<MPI_Request> requests_;
  std::vector<Done> done_;  // parallel to requests_
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace tandem::mpi
