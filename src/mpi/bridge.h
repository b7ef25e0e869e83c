// SPDX-License-Identifier: Apache-2.0
//
// Bridge: the thread that calls MPI for this process, and the queues to it. World, windows and
// lanes queue what they have to say (symm::Remote); the thread sends it, receives for this
// machine's ranks what its share of the other machines' ranks send, and lets the inbox act on it.
// It ends with the world, or in MPI_Finalize() where the world lives longer: afterwards it calls
// MPI no more, and what it is told is dropped. Start reading at serve(); when it sleeps, and for
// how long, is nap().
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include <mpi.h>

#include "mpi/incoming.h"
#include "mpi/outgoing.h"
#include "mpi/requests.h"
#include "platform/deadline.h"
#include "platform/park.h"
#include "platform/team.h"
#include "symm/inbox.h"
#include "symm/machines.h"
#include "symm/remote.h"

namespace tandem::mpi {

class Bridge final : public symm::Remote {
 public:
  struct Settings {
    MessageSizes sizes;                    ///< the same on every rank
    std::chrono::milliseconds farewell{};  ///< how long the destructor serves others at most
  };
  /// Takes `comm` over; MPI must allow calls from any thread. Errors: kOutOfMemory (no thread),
  /// kIo.
  static Result<std::shared_ptr<Bridge>> start(MPI_Comm comm, const symm::Machines& machines,
                                               int rank, std::shared_ptr<symm::Inbox> inbox,
                                               const Settings& settings);
  /// Sends what is queued, and receives until nobody of this machine needs it any longer.
  ~Bridge() override;

  void tell(int machine, symm::Note note, std::span<const std::byte> text) override;
  void ship(int machine, const symm::Cargo& cargo, symm::CargoSource source) override;
  void set_pace(bool core_to_spare) override {
    // Relaxed: a knob.
    core_to_spare_.store(core_to_spare, std::memory_order_relaxed);
  }
  void core_freed(int threads) override;

 private:
  Bridge(MPI_Comm comm, const symm::Machines& machines, int rank,
         std::shared_ptr<symm::Inbox> inbox, const Settings& settings);
  void serve();
  Status serve_until_finished();
  /// The network, or what it needs, is lost: says so on this machine, and to the others as far as
  /// that can be said.
  void break_off(const Status& failure) noexcept;
  /// Lets the thread end as finished() says, and MPI keep nothing but what it cannot give back.
  void finish();
  /// MPI calls it as MPI_Finalize() begins, `bridge` being a Bridge.
  static int at_finalize(MPI_Comm, int keyval, void* bridge, void*);
  /// One round: sends, polls, receives. Whether anything happened.
  Result<bool> work();
  /// Queues a note for every other machine, without a wake().
  void tell_all(const symm::Note& note, std::span<const std::byte> text);
  void nap(platform::Clock::time_point last_event, std::uint32_t calls);
  void wake();
  [[nodiscard]] bool finished();

  MPI_Comm comm_;
  int keyval_ = MPI_KEYVAL_INVALID;  ///< of an attribute of MPI_COMM_SELF; invalid once MPI ends
  std::shared_ptr<symm::Inbox> inbox_;
  const Settings settings_;
  Requests requests_;
  std::vector<std::unique_ptr<Outgoing>> outgoing_;  // by machine; null for one's own
  std::vector<std::unique_ptr<Incoming>> incoming_;  // of the sources that this process receives
  std::atomic<bool> core_to_spare_{false};
  std::atomic<int> free_cores_{0};       ///< of threads that sleep until something arrives
  std::atomic<std::uint32_t> calls_{0};  ///< grows when something is queued; the thread parks on it
  std::atomic<bool> asleep_{false};
  std::atomic<bool> ending_{false};
  platform::Clock::time_point farewell_from_, farewell_until_;  ///< once ending_
  bool clean_ = true;               ///< MPI touches none of our memory any longer
  std::atomic<bool> ended_{false};  ///< nobody serves any longer
  std::unique_ptr<platform::Team> thread_;
};

}  // namespace tandem::mpi
