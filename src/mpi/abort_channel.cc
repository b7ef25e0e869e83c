// SPDX-License-Identifier: Apache-2.0
//
// One short message to everybody, from memory that is there in any case.
#include "mpi/abort_channel.h"

#include <array>
#include <atomic>
#include <new>
#include <span>

#include "mpi/requests.h"
#include "symm/failure_text.h"
#include "tandem/world.h"

namespace tandem::mpi {
namespace {

constexpr std::uint64_t kMagic = 0x3254524f42414e54ULL;  // "TNABORT2" in memory

/// Plain bytes of one layout, and so short that MPI sends it at once.
struct Message {
  std::uint64_t magic = kMagic;
  std::uint64_t attempt = 0;
  symm::FailureText why;
};

/// What MPI reads until the last has taken it.
struct Farewell {
  Message message;
  std::array<MPI_Request, kMaxRanks> sends{};
  std::size_t count = 0;
};

/// For when there is no memory; one rank of a process at a time may need it.
Farewell reserve;
std::atomic<bool> reserve_taken{false};

/// Null when there is neither memory nor the reserve.
Farewell* obtain() {
  if (auto* const made = new (std::nothrow) Farewell) return made;
  // Acquire: pairs with the release in give_back(), whose owner has done with it.
  return reserve_taken.exchange(true, std::memory_order_acquire) ? nullptr : &reserve;
}

void give_back(Farewell* farewell) {
  if (farewell == &reserve) {
    reserve_taken.store(false, std::memory_order_release);
  } else {
    delete farewell;
  }
}

}  // namespace

AbortChannel::AbortChannel(MPI_Comm comm, int tag, std::uint32_t attempt)
    : comm_(comm), tag_(tag), attempt_(attempt) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
}

Result<std::optional<AbortChannel::Abort>> AbortChannel::heard() const {
  for (;;) {
    int there = 0;
    MPI_Status from;
    Status looked =
        check(MPI_Iprobe(MPI_ANY_SOURCE, tag_, comm_, &there, &from), "look for messages");
    if (!looked.ok()) return looked;
    if (there == 0) return std::optional<Abort>();
    Message message;
    Status received = check(MPI_Recv(&message, sizeof message, MPI_BYTE, from.MPI_SOURCE, tag_,
                                     comm_, MPI_STATUS_IGNORE),
                            "receive");
    if (!received.ok()) return received;
    const bool ours = message.magic == kMagic;
    // Of an earlier call, or of one that this rank has yet to make.
    if (ours && message.attempt != attempt_) continue;
    return std::optional<Abort>(
        {.rank = from.MPI_SOURCE,
         .why = ours ? message.why.status()
                     : Status(StatusCode::kMismatch, "it runs another version of Tandem")});
  }
}

void AbortChannel::tell(const Status& why) const noexcept {
  if (settled_) return;
  Farewell* const farewell = obtain();
  if (farewell == nullptr) return;
  Message& message = farewell->message;
  message.attempt = attempt_;
  message.why = symm::FailureText::of(why);
  farewell->count = 0;
  for (int step = 1; step < size_; ++step) {
    MPI_Request& send = farewell->sends[farewell->count];
    const int begun =
        MPI_Isend(&message, sizeof message, MPI_BYTE, (rank_ + step) % size_, tag_, comm_, &send);
    if (begun == MPI_SUCCESS) ++farewell->count;
  }
  // What MPI still reads stays.
  if (end_soon(std::span(farewell->sends).first(farewell->count))) give_back(farewell);
}

}  // namespace tandem::mpi
