// SPDX-License-Identifier: Apache-2.0
//
// Duplicating a communicator within a deadline, and what is kept as its attribute.
#include "mpi/communicator.h"

#include <fmt/format.h>

#include "mpi/requests.h"
#include "platform/park.h"

namespace tandem::mpi {
namespace {

Status refused(int code) {
  const Status why = check(code, "duplicate the communicator");
  return {why.code(),
          fmt::format("{}. As a rule it has no communicators left: each world takes one while it "
                      "lives; free those that are no longer needed (MPI_Comm_free)",
                      why.message())};
}

}  // namespace

ErrorsReturn::ErrorsReturn(MPI_Comm comm) : comm_(comm) {
  if (MPI_Comm_get_errhandler(comm_, &before_) != MPI_SUCCESS) before_ = MPI_ERRHANDLER_NULL;
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
}

ErrorsReturn::~ErrorsReturn() {
  if (before_ == MPI_ERRHANDLER_NULL) return;
  MPI_Comm_set_errhandler(comm_, before_);
  MPI_Errhandler_free(&before_);
}

Result<std::uint32_t> count_attempt(MPI_Comm comm) {
  struct Key {
    int value = MPI_KEYVAL_INVALID;
    int code =
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &value, nullptr);
  };
  static const Key key;  // of the process: as many as there are communicators share it
  if (Status s = check(key.code, "make an attribute"); !s.ok()) return s;
  void* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(comm, key.value, static_cast<void*>(&value), &found);
  const auto count =
      static_cast<std::uint32_t>(found != 0 ? reinterpret_cast<std::uintptr_t>(value) : 0) + 1;
  // The attribute is the number itself.
  void* const next = reinterpret_cast<void*>(static_cast<std::uintptr_t>(count));
  if (Status s = check(MPI_Comm_set_attr(comm, key.value, next), "set an attribute"); !s.ok()) {
    return s;
  }
  return count;
}

Result<OwnComm> Duplication::run(MPI_Comm comm, platform::Deadline deadline,
                                 const std::function<Status()>& meanwhile) {
  const int begun = MPI_Comm_idup(comm, &pending_->made, &pending_->request);
  if (begun != MPI_SUCCESS) return refused(begun);
  const auto abandon = [&](Status why) {
    (void)pending_.release();
    return why;
  };
  for (int ended = 0;;) {
    const bool last = deadline.passed();
    if (const int code = MPI_Test(&pending_->request, &ended, MPI_STATUS_IGNORE);
        code != MPI_SUCCESS) {
      return refused(code);
    }
    if (ended != 0) break;
    if (Status s = meanwhile(); !s.ok()) return abandon(std::move(s));
    if (last) {
      return abandon(
          {StatusCode::kTimeout,
           "the ranks came to make_world(), but the communicator could not be duplicated in "
           "time: a rank has ended, or the network stalls; look at the other ranks, or "
           "allow more time (WorldOptions.timeout)"});
    }
    platform::sleep_until(platform::Clock::now() + std::chrono::microseconds(20));
  }
  if (pending_->made == MPI_COMM_NULL) return refused(MPI_ERR_OTHER);
  MPI_Comm_set_errhandler(pending_->made, MPI_ERRORS_RETURN);
  return OwnComm(pending_->made);
}

OwnComm::~OwnComm() {
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

}  // namespace tandem::mpi
