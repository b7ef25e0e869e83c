// SPDX-License-Identifier: Apache-2.0
//
// Outgoing: what this process sends to one other machine. Notes are gathered into messages; cargo
// is announced by a note each and follows as messages of its own, so that the receiver knows where
// it belongs before it comes. Other threads queue, the bridge's thread sends: start reading at
// post().
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <mpi.h>

#include "mpi/requests.h"
#include "symm/inbox.h"
#include "symm/remote.h"

namespace tandem::mpi {

/// Longest message of notes: several notes of any kind, and short enough that MPI sends it at once.
inline constexpr std::size_t kMessageBytes = 4096;

class Outgoing {
 public:
  /// To the rank that receives there, on `comm`.
  Outgoing(MPI_Comm comm, int receiver, const MessageSizes& sizes);
  ~Outgoing();
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;

  [[nodiscard]] int receiver() const { return receiver_; }

  /// Thread-safe. Nothing is thrown: where memory for the queue cannot be had, post() reports that,
  /// since what comes later would be without what came before.
  void tell(symm::Note note, std::span<const std::byte> text) noexcept;
  void ship(const symm::Cargo& cargo, symm::CargoSource source) noexcept;

  /// Sends what is queued, as far as it may. Returns whether anything was sent. The bridge's
  /// thread. Errors: kOutOfMemory, kIo.
  Result<bool> post(Requests& requests, symm::Inbox& inbox);
  /// Gives up what is queued and sends why nothing more comes, from memory that is there in any
  /// case. The bridge's thread, last.
  void break_off(const Status& failure) noexcept;
  /// Whether MPI has taken these words, or never will. Makes it go on.
  [[nodiscard]] bool last_words_sent() noexcept;
  /// Nothing is queued or under way.
  [[nodiscard]] bool idle();

 private:
  struct Message {
    std::vector<std::byte> bytes;
    int cargo = 0;  ///< announced in it
  };
  struct LastWords;
  struct Shipment {
    symm::Cargo cargo;
    symm::CargoSource source;  ///< holds the memory that MPI reads
    Pieces pieces;
    std::uint64_t posted = 0, sent = 0;
  };
  /// Runs `append` under the lock; what it throws becomes lost_.
  template <class Append>
  void queue(const Append& append) noexcept;
  /// Appends a note to the last message. The lock is held.
  void append(const symm::Note& note, std::span<const std::byte> text);
  void finish(Shipment& shipment, symm::Inbox& inbox);

  const MPI_Comm comm_;
  const int receiver_;
  const MessageSizes sizes_;
  std::mutex mutex_;  // guards the two queues and lost_
  std::deque<std::shared_ptr<Message>> messages_;
  std::deque<std::shared_ptr<Shipment>> queued_;
  bool lost_ = false;  ///< something could not be queued
  // The bridge's thread only:
  std::deque<std::shared_ptr<Shipment>> shipments_;  ///< not yet posted entirely
  int announced_ = 0;                                ///< of those, from the front
  int messages_under_way_ = 0;
  std::unique_ptr<LastWords> last_words_;
  std::uint64_t bytes_under_way_ = 0;
};

}  // namespace tandem::mpi
