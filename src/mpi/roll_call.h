// SPDX-License-Identifier: Apache-2.0
//
// RollCall: what the ranks of a communicator tell each other while a world is made: rounds in which
// everybody hears a few bytes from everybody, each bounded by one deadline. MPI's own collectives
// wait for ever for a rank that does not come, and do not say which; here every error names the
// ranks and hosts. A round also ends when another rank gives up (abort_channel.h). Used by
// make_world(); start reading at round().
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <mpi.h>

#include "mpi/abort_channel.h"
#include "platform/deadline.h"
#include "tandem/status.h"

namespace tandem::mpi {

class RollCall {
 public:
  /// What a round carries from each rank, at most.
  static constexpr std::size_t kMostBytes = 512;

  /// Rounds on `comm`, whose errors come back. Messages have the tag `tag` and are told apart from
  /// those of earlier attempts on the same communicator by `attempt`, which must be the same on all
  /// ranks. Throws std::bad_alloc; the rounds themselves need memory for errors only.
  RollCall(MPI_Comm comm, int tag, std::uint32_t attempt, platform::Deadline deadline,
           AbortChannel& abort);
  /// Takes back what can be taken back; what MPI keeps after that, it keeps with its memory.
  ~RollCall();
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] platform::Deadline deadline() const { return deadline_; }
  /// "rank 2 (host beta)", the host once it has been heard from.
  [[nodiscard]] std::string name(int rank) const;

  /// Called again and again while a round waits. Its error ends the round.
  using Meanwhile = std::function<Status()>;

  /// Collective. Returns when every rank has called it. `what` says in an error what the ranks are
  /// to do: "make a world". Errors: kTimeout, kIo, kMismatch, and why another rank gave up.
  [[nodiscard]] Status meet(std::string_view what) { return round(what, {}, {}); }
  /// Collective. One value of each rank, plain bytes, in rank order. Errors: as meet().
  template <class T>
  Result<std::vector<T>> gather(std::string_view what, const T& own,
                                const Meanwhile& meanwhile = {});
  /// Collective. A meet() for who is ok; `own` at once where that is an error: whoever returns one
  /// from make_world() tells the others (abort_channel.h), who then do not wait any longer.
  [[nodiscard]] Status agree(std::string_view what, const Status& own,
                             const Meanwhile& meanwhile = {}) {
    return own.ok() ? round(what, {}, meanwhile) : own;
  }
  /// Why another rank gave up, if one has: for whoever waits for anything else than a round.
  [[nodiscard]] Status heard() const;
  /// Lets what is still under way end. False when MPI keeps something: then the communicator must
  /// not be freed.
  [[nodiscard]] bool finish();

 private:
  struct Message;
  struct Mail;
  Status round(std::string_view what, std::span<const std::byte> own, const Meanwhile& meanwhile);
  Status listen(int peer);
  Status send_all(std::span<const std::byte> own);
  /// Takes in what has come. True when the round is complete.
  Result<bool> progress();
  Status hear(int peer, int bytes);
  [[nodiscard]] std::span<const std::byte> said(int rank) const;
  [[nodiscard]] Status timed_out(std::string_view what) const;

  const MPI_Comm comm_;
  const int tag_;
  const std::uint32_t attempt_;
  const platform::Deadline deadline_;
  const platform::Clock::time_point start_ = platform::Clock::now();
  AbortChannel& abort_;
  int rank_ = 0, size_ = 1;
  std::uint32_t round_ = 0;
  std::unique_ptr<Mail> mail_;  ///< what MPI reads and writes
};

template <class T>
Result<std::vector<T>> RollCall::gather(std::string_view what, const T& own,
                                        const Meanwhile& meanwhile) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMostBytes);
  std::vector<T> all(static_cast<std::size_t>(size_));
  if (Status s = round(what, std::as_bytes(std::span(&own, 1)), meanwhile); !s.ok()) return s;
  for (int r = 0; r < size_; ++r) {
    const std::span<const std::byte> bytes = said(r);
    if (bytes.size() != sizeof(T)) {
      return Status(StatusCode::kMismatch,
                    "ranks run different versions of Tandem; install one version on all machines");
    }
    std::memcpy(&all[static_cast<std::size_t>(r)], bytes.data(), sizeof(T));
  }
  return all;
}

}  // namespace tandem::mpi
