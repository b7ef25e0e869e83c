// SPDX-License-Identifier: Apache-2.0
//
// One short message to everybody, from memory that is there in any case.
#include "mpi/abort_channel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>

#include "mpi/requests.h"
#include "platform/park.h"
#include "tandem/world.h"

namespace tandem::mpi {
namespace {

constexpr std::uint64_t kMagic = 0x3154524f42414e54ULL;  // "TNABORT1" in memory
constexpr std::chrono::milliseconds kPatience{200};

/// Plain bytes of one layout, and so short that MPI sends it at once.
struct Message {
  std::uint64_t magic = kMagic;
  std::uint32_t attempt = 0;
  std::int32_t code = 0;
  std::int64_t lost = -1;  ///< the rank of its WaitDetail
  std::uint64_t length = 0;
  char words[1000] = {};
};

/// What MPI reads until the last has taken it.
struct Farewell {
  Message message;
  std::array<MPI_Request, kMaxRanks> sends{};
  int count = 0;
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
    // Of an earlier call, or of one that this rank has yet to make.
    if (message.magic == kMagic && message.attempt != attempt_) continue;
    const bool known = message.magic == kMagic && message.code > 0 &&
                       message.code <= static_cast<int>(StatusCode::kInternal);
    const StatusCode code = known ? static_cast<StatusCode>(message.code) : StatusCode::kInternal;
    std::string words(message.words, std::min<std::size_t>(message.length, sizeof message.words));
    const WaitDetail detail{.rank = static_cast<int>(message.lost)};
    return std::optional<Abort>({.rank = from.MPI_SOURCE,
                                 .why = detail.rank < 0 ? Status(code, std::move(words))
                                                        : Status(code, std::move(words), detail)});
  }
}

void AbortChannel::tell(const Status& why) const noexcept {
  if (settled_) return;
  Farewell* const farewell = obtain();
  if (farewell == nullptr) return;
  Message& message = farewell->message;
  message = {.attempt = attempt_,
             .code = static_cast<std::int32_t>(why.code()),
             .lost = why.wait() ? why.wait()->rank : -1};
  message.length = std::min(why.message().size(), sizeof message.words);
  std::memcpy(message.words, why.message().data(), message.length);
  farewell->count = 0;
  for (int step = 1; step < size_; ++step) {
    MPI_Request& send = farewell->sends[static_cast<std::size_t>(farewell->count)];
    const int begun =
        MPI_Isend(&message, sizeof message, MPI_BYTE, (rank_ + step) % size_, tag_, comm_, &send);
    if (begun == MPI_SUCCESS) ++farewell->count;
  }
  const auto end = platform::Clock::now() + kPatience;
  for (;;) {
    int ended = 0;
    const int code =
        MPI_Testall(farewell->count, farewell->sends.data(), &ended, MPI_STATUSES_IGNORE);
    if (code == MPI_SUCCESS && ended != 0) return give_back(farewell);
    // What MPI still reads stays.
    if (code != MPI_SUCCESS || platform::Clock::now() >= end) return;
    platform::sleep_until(platform::Clock::now() + std::chrono::microseconds(100));
  }
}

}  // namespace tandem::mpi
