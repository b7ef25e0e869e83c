// SPDX-License-Identifier: Apache-2.0
//
// RollCall: what the ranks of a communicator tell each other while a world is made: rounds in which
// everybody hears a few bytes from everybody, each bounded by one deadline. MPI's own collectives
// wait for ever for a rank that does not come, and do not say which; here every error names the
// ranks and hosts. Whoever gives up tells the others, so that they need not wait as long again.
// Used by make_world(); start reading at round().
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <mpi.h>

#include "mpi/requests.h"
#include "platform/deadline.h"
#include "tandem/status.h"

namespace tandem::mpi {

class RollCall {
 public:
  /// What a round carries from each rank, at most.
  static constexpr std::size_t kMostBytes = 512;

  /// Rounds on `comm`, whose errors come back. Messages have the tag `tag` and are told apart from
  /// those of earlier attempts on the same communicator by `attempt`, which must be the same on all
  /// ranks.
  RollCall(MPI_Comm comm, int tag, std::uint32_t attempt, platform::Deadline deadline);
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

  /// Collective. One value of each rank, plain bytes, in rank order. `what` says in an error what
  /// the ranks are to do: "make a world". Errors: kTimeout, kIo, kMismatch.
  template <class T>
  Result<std::vector<T>> gather(std::string_view what, const T& own,
                                const Meanwhile& meanwhile = {});
  /// Collective. `own`, or, when that is ok and another rank's is not, that one's, with its rank
  /// and its words. Errors: these, and those of gather().
  [[nodiscard]] Status agree(std::string_view what, const Status& own,
                             const Meanwhile& meanwhile = {});
  /// Lets what is still under way end. False when MPI keeps something: then the communicator must
  /// not be freed.
  [[nodiscard]] bool finish();

 private:
  struct Message;
  struct Peer {
    bool here = false;  ///< in this round
    std::string host;
    std::vector<std::byte> said;
  };
  Status round(std::string_view what, std::span<const std::byte> own, const Meanwhile& meanwhile);
  Status send_all(std::uint64_t missing, std::span<const std::byte> said);
  Status listen(int peer);
  void hear(int peer, const Message& message, int bytes);
  /// The error of a round that ends without some, and its reason for the others.
  Status give_up(std::string_view what);

  const int tag_;
  const std::uint32_t attempt_;
  const platform::Deadline deadline_;
  const platform::Clock::time_point start_ = platform::Clock::now();
  int rank_ = 0, size_ = 1;
  const std::string host_;
  Requests requests_;
  std::vector<Peer> peers_;
  std::uint32_t round_ = 0;
  Status broken_;  ///< what a message of another rank makes of the round
};

template <class T>
Result<std::vector<T>> RollCall::gather(std::string_view what, const T& own,
                                        const Meanwhile& meanwhile) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMostBytes);
  if (Status s = round(what, std::as_bytes(std::span(&own, 1)), meanwhile); !s.ok()) return s;
  std::vector<T> all;
  for (const Peer& peer : peers_) {
    all.emplace_back();
    if (peer.said.size() != sizeof(T)) {
      return Status(StatusCode::kMismatch,
                    "ranks run different versions of Tandem; install one version on all machines");
    }
    std::memcpy(&all.back(), peer.said.data(), sizeof(T));
  }
  return all;
}

}  // namespace tandem::mpi
