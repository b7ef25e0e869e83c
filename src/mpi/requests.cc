// SPDX-License-Identifier: Apache-2.0
//
// Requests over MPI_Testsome.
#include "mpi/requests.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "platform/park.h"

namespace tandem::mpi {
namespace {

/// The memory of a piece as one MPI type, for as long as it is being posted.
class PieceType {
 public:
  PieceType(const Piece& piece, std::size_t pitch) {
    const auto bytes = static_cast<int>(piece.bytes);
    if (piece.rows <= 1 || pitch == piece.bytes) {
      count_ = bytes * static_cast<int>(piece.rows == 0 ? 1 : piece.rows);
      return;
    }
    MPI_Type_create_hvector(static_cast<int>(piece.rows), bytes, static_cast<MPI_Aint>(pitch),
                            MPI_BYTE, &type_);
    MPI_Type_commit(&type_);
    count_ = 1;
  }
  ~PieceType() {
    // MPI keeps it until the operations that use it have ended.
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }
  PieceType(const PieceType&) = delete;
  PieceType& operator=(const PieceType&) = delete;
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] MPI_Datatype type() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_BYTE;
  int count_ = 0;
};

template <class T>
void make_room(std::vector<T>& list) {
  if (list.size() == list.capacity()) list.reserve(2 * list.size() + 8);
}

std::size_t offset(const Piece& piece, std::size_t pitch) {
  return static_cast<std::size_t>(piece.row0) * pitch + piece.at;
}

}  // namespace

Status check(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {StatusCode::kIo,
          fmt::format("MPI could not {}: {}; restart the job, and look at the "
                      "messages of MPI above",
                      what, std::string_view(text, static_cast<std::size_t>(length)))};
}

bool end_soon(std::span<MPI_Request> requests) {
  constexpr std::chrono::milliseconds kPatience{200};
  const auto end = platform::Clock::now() + kPatience;
  for (MPI_Request& request : requests) {
    int ended = 0;
    while (MPI_Test(&request, &ended, MPI_STATUS_IGNORE) == MPI_SUCCESS && ended == 0 &&
           platform::Clock::now() < end) {
      platform::sleep_until(platform::Clock::now() + std::chrono::milliseconds(1));
    }
  }
  return std::all_of(requests.begin(), requests.end(),
                     [](MPI_Request request) { return request == MPI_REQUEST_NULL; });
}

Requests::~Requests() {
  if (!empty()) (void)open_.release();
}

/// `operation` begins one MPI operation and gives its code.
template <class Operation>
Status Requests::begin(Kind kind, Done done, Operation operation) {
  // Room first: what MPI has begun must not get lost for want of memory.
  make_room(open_->requests);
  make_room(open_->actions);
  MPI_Request request = MPI_REQUEST_NULL;
  Status status = check(operation(&request), kind == Kind::send ? "send" : "receive");
  if (status.ok()) {
    open_->requests.push_back(request);
    open_->actions.push_back({std::move(done), kind});
  }
  return status;
}

Status Requests::send(const void* from, int bytes, int rank, int tag, Done done) {
  return begin(Kind::send, std::move(done), [&](MPI_Request* request) {
    return MPI_Isend(from, bytes, MPI_BYTE, rank, tag, comm_, request);
  });
}

Status Requests::receive(void* to, int bytes, int rank, int tag, Done done) {
  return begin(Kind::receive, std::move(done), [&](MPI_Request* request) {
    return MPI_Irecv(to, bytes, MPI_BYTE, rank, tag, comm_, request);
  });
}

Status Requests::send(const std::byte* base, std::size_t pitch, const Piece& piece, int rank,
                      int tag, Done done) {
  const PieceType type(piece, pitch);
  return begin(Kind::send, std::move(done), [&](MPI_Request* request) {
    return MPI_Issend(base + offset(piece, pitch), type.count(), type.type(), rank, tag, comm_,
                      request);
  });
}

Status Requests::receive(std::byte* base, std::size_t pitch, const Piece& piece, int rank, int tag,
                         Done done) {
  const PieceType type(piece, pitch);
  return begin(Kind::receive, std::move(done), [&](MPI_Request* request) {
    return MPI_Irecv(base + offset(piece, pitch), type.count(), type.type(), rank, tag, comm_,
                     request);
  });
}

Result<int> Requests::poll() {
  std::vector<MPI_Request>& requests = open_->requests;
  if (requests.empty()) return 0;
  indices_.resize(requests.size());
  statuses_.resize(requests.size());
  int ended = 0;
  const int code = MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &ended,
                                indices_.data(), statuses_.data());
  if (code != MPI_SUCCESS) {
    int first = code;
    for (int i = 0; code == MPI_ERR_IN_STATUS && i < ended; ++i) {
      const int own = statuses_[static_cast<std::size_t>(i)].MPI_ERROR;
      if (own != MPI_SUCCESS && own != MPI_ERR_PENDING) first = own;
    }
    return check(first, "move data between machines");
  }
  if (ended == MPI_UNDEFINED || ended == 0) return 0;
  std::vector<std::pair<Done, int>> done;
  for (int i = 0; i < ended; ++i) {
    int bytes = 0;
    MPI_Get_count(&statuses_[static_cast<std::size_t>(i)], MPI_BYTE, &bytes);
    const auto index = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
    done.emplace_back(std::move(open_->actions[index].done), bytes);
  }
  forget_ended();
  for (auto& [act, bytes] : done) act(bytes);
  return ended;
}

void Requests::forget_ended() {
  auto& [requests, actions] = *open_;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i] == MPI_REQUEST_NULL) continue;
    requests[kept] = requests[i];
    if (kept != i) actions[kept] = std::move(actions[i]);
    ++kept;
  }
  requests.resize(kept);
  actions.resize(kept);
}

bool Requests::withdraw() {
  // Sends can be withdrawn by the letter of MPI only.
  auto& [requests, actions] = *open_;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (actions[i].kind == Kind::receive) MPI_Cancel(&requests[i]);
  }
  (void)end_soon(requests);
  forget_ended();
  return empty();
}

}  // namespace tandem::mpi
