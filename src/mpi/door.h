// SPDX-License-Identifier: Apache-2.0
//
// Door: where a rank lets in the ranks of its machine. Its name can be read by every user there, so
// that anybody may knock, and fill the queue: whoever has a door tends it while it waits for
// anything else. Let in are those who know the word, which goes by MPI only. Used by meet().
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "platform/local_socket.h"

namespace tandem::mpi {

/// What shows that a rank is of this job. Plain bytes.
using Word = std::array<std::uint64_t, 2>;

class Door {
 public:
  /// Errors: kIo.
  static Result<Door> open(const platform::SocketName& name, const Word& word);
  /// Tells a door to which `connection` is connected who one is. Errors: kIo.
  static Status announce(platform::LocalSocket& connection, const Word& word, int rank);

  /// Lets in who waits and knows the word, refuses others; never waits. Errors: kIo.
  Status tend();
  [[nodiscard]] const std::map<int, platform::LocalSocket>& admitted() const { return admitted_; }
  /// Hands a descriptor to everybody who was let in. Returns who could not be reached any longer.
  [[nodiscard]] std::optional<int> hand_over(int descriptor);

 private:
  Door(platform::LocalListener listener, const Word& word)
      : listener_(std::move(listener)), word_(word) {}
  /// Whether to keep who came: it has not said anything yet.
  bool hear(platform::LocalSocket& connection);

  platform::LocalListener listener_;
  Word word_;
  std::deque<platform::LocalSocket> strangers_;    // who have not said the word yet
  std::map<int, platform::LocalSocket> admitted_;  // by rank
};

}  // namespace tandem::mpi
