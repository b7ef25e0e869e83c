// SPDX-License-Identifier: Apache-2.0
//
// Requests: the MPI operations under way, each with what is to be done when it has ended, which
// also owns the memory that the operation uses. So whatever becomes of the operation, MPI never
// touches memory that is gone. One thread uses it: the bridge's, or that of make_world().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <mpi.h>

#include "mpi/pieces.h"
#include "tandem/status.h"

namespace tandem::mpi {

/// Of messages on the library's own communicator.
enum Tag : int { kNotes = 1, kCargo = 2, kProbe = 3, kRoll = 4 };

/// Ok, or kIo with MPI's own words for `code`, the result of `what`.
[[nodiscard]] Status check(int code, std::string_view what);

/// Lets operations end, for 200 ms at most: what was matched ends only when the other side goes on,
/// which may be never. True when all have; the others MPI may still touch.
[[nodiscard]] bool end_soon(std::span<MPI_Request> requests);

class Requests {
 public:
  /// Gets the number of bytes that a receive brought. Holds (a shared_ptr to) the memory that the
  /// operation reads or writes.
  using Done = std::function<void(int bytes)>;

  explicit Requests(MPI_Comm comm) : comm_(comm), open_(std::make_unique<Open>()) {}
  /// What has not ended stays for ever, with its memory: MPI may still touch that.
  ~Requests();
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

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

  [[nodiscard]] bool empty() const { return open_->requests.empty(); }
  /// Withdraws receives that nobody has answered, so that their memory is free again. False when
  /// something is left that MPI may still touch. Nothing is done when these operations end.
  bool withdraw();

 private:
  enum class Kind : std::uint8_t { send, receive };
  struct Action {
    Done done;
    Kind kind = Kind::send;
  };
  struct Open {
    std::vector<MPI_Request> requests;
    std::vector<Action> actions;  // parallel to requests
  };
  template <class Operation>
  Status begin(Kind kind, Done done, Operation operation);
  void forget_ended();

  const MPI_Comm comm_;
  std::unique_ptr<Open> open_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace tandem::mpi
