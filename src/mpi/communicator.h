// SPDX-License-Identifier: Apache-2.0
//
// The two communicators of a world: the caller's, on which the ranks find each other, and a
// duplicate for the library alone. Used by make_world().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <mpi.h>

#include "platform/deadline.h"
#include "tandem/status.h"

namespace tandem::mpi {

/// Lets the errors of a communicator come back, instead of ending the job, for as long as it lives.
class ErrorsReturn {
 public:
  explicit ErrorsReturn(MPI_Comm comm);
  ~ErrorsReturn();
  ErrorsReturn(const ErrorsReturn&) = delete;
  ErrorsReturn& operator=(const ErrorsReturn&) = delete;

 private:
  MPI_Comm comm_;
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
};

/// How many times this was asked of a communicator, this time included: every rank of it knows the
/// same number if all make the same calls. Errors: kIo.
[[nodiscard]] Result<std::uint32_t> count_attempt(MPI_Comm comm);

/// A communicator of the library's own, whose errors come back.
class OwnComm {
 public:
  OwnComm() = default;
  OwnComm(OwnComm&& other) noexcept : comm_(other.release()) {}
  OwnComm& operator=(OwnComm&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }
  ~OwnComm();

  [[nodiscard]] MPI_Comm get() const { return comm_; }
  /// The caller's to free, or to keep.
  [[nodiscard]] MPI_Comm release() { return std::exchange(comm_, MPI_COMM_NULL); }

 private:
  friend class Duplication;
  explicit OwnComm(MPI_Comm comm) : comm_(comm) {}
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// Makes one. Its memory is there before: a rank that joins in, as all must, cannot fail to.
class Duplication {
 public:
  Duplication() : pending_(std::make_unique<Pending>()) {}
  /// Collective over `comm`, whose errors must come back, once. An error of `meanwhile`, which is
  /// called again and again, ends it. Errors: kIo (among other things when MPI has no communicators
  /// left), kTimeout; then what MPI still works on stays for ever.
  Result<OwnComm> run(MPI_Comm comm, platform::Deadline deadline,
                      const std::function<Status()>& meanwhile);

 private:
  /// MPI writes here when it gets round to it.
  struct Pending {
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  std::unique_ptr<Pending> pending_;
};

}  // namespace tandem::mpi
