// SPDX-License-Identifier: Apache-2.0
//
// World: membership, liveness and collective creation of windows, for thread ranks and process
// ranks alike. Behind tandem::World. Start reading at exchange(): everything collective is one.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/internal_api.h"
#include "platform/deadline.h"
#include "platform/memory_promise.h"
#include "platform/park.h"
#include "symm/machines.h"
#include "symm/offer.h"
#include "symm/remote.h"
#include "symm/window.h"
#include "tandem/status.h"
#include "tandem/transport.h"

namespace tandem::symm {

class Inbox;
class WorldMemory;

/// A rank's seat in a world of several machines, as the room that speaks to them prepared it.
struct MachineSeat {
  std::shared_ptr<WorldMemory> memory;  ///< of this machine, its ranks absent, the others joined
  Machines machines{1};
  int rank = 0;
  Link link;                       ///< between machines, as measured
  std::shared_ptr<Inbox> inbox;    ///< null when there is one machine, as `remote`
  std::shared_ptr<Remote> remote;  ///< serves the inbox
};

class World : public std::enable_shared_from_this<World> {
 public:
  ~World();  ///< marks the rank as gone: peers that wait for it get kPeerLost
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }
  [[nodiscard]] const Machines& machines() const { return machines_; }
  /// The network between its machines, as measured; the same on every rank.
  [[nodiscard]] const Link& link() const { return link_; }
  /// Whether its ranks could be on several machines (take_seat()), even if they are not.
  [[nodiscard]] bool meets_by_network() const { return by_network_; }

  /// Polling limit for `threads` busy threads per rank: zero when the threads of all ranks of this
  /// machine together outnumber the cores that they may use.
  [[nodiscard]] platform::Spin spin(int threads) const;

  /// Collective, bounded by timeout(). `own` is what this rank offers, or why it refuses; the
  /// result is settle() of all offers. A refusal, and kMismatch, end this collective on every rank,
  /// and the world goes on. After any other error it stays failed: the first failure is returned by
  /// this and all later calls on every rank. kUnsupported in a forked child.
  Result<std::vector<Terms>> exchange(Collective what, const Result<Terms>& own);
  /// The same, bounded by a deadline of its own.
  Result<std::vector<Terms>> exchange_until(Collective what, const Result<Terms>& own,
                                            platform::Deadline deadline);
  /// Collective. An exchange of nothing.
  Status barrier() { return exchange(Collective::barrier, Terms{}).status(); }
  /// Takes this rank's place in the next collective, whichever it is: every rank's returns an error
  /// that names this rank and the reason (not kOk). Returns the reason, or the world's failure.
  Status refuse(const Status& reason) { return exchange(Collective::barrier, reason).status(); }

  /// Collective; every rank passes the same spec (kMismatch names both ranks and values). All
  /// memory is reserved and touched by its owner here, so that exhaustion is kOutOfMemory now and
  /// not a signal later. The memory is given back when the last rank's Window is destroyed.
  /// `prepare` is what this rank still has to do for itself before the window is anybody's: when it
  /// fails, creation does, on every rank.
  using Prepare = std::function<Status(Window&)>;
  Result<std::unique_ptr<Window>> create_window(const WindowSpec& spec,
                                                const Prepare& prepare = {});

  /// Ok in the process that made or joined the world; kUnsupported in one forked from it.
  [[nodiscard]] Status check_process() const;

  /// False before the rank has joined, and when its process has died or its World was destroyed.
  [[nodiscard]] bool alive(int rank) const;

 private:
  friend class Window;
  friend Result<std::vector<std::shared_ptr<World>>> make_thread_worlds(
      int size, std::chrono::milliseconds timeout);
  friend Result<std::shared_ptr<World>> join_world(int rank, int size, int fd,
                                                   std::chrono::milliseconds timeout);
  friend Result<std::shared_ptr<World>> take_seat(MachineSeat seat,
                                                  std::chrono::milliseconds timeout);

  World(std::shared_ptr<WorldMemory> memory, const Machines& machines, int rank,
        std::chrono::milliseconds timeout);
  /// Takes this rank's place. Errors: kInvalidArgument (taken).
  Status take_place();
  Result<std::vector<Offer>> meet(const Offer& own, platform::Deadline deadline);
  Result<std::unique_ptr<Window>> create_window_locked(const WindowSpec& spec,
                                                       const Prepare& prepare);
  /// Publishes the first failure of the world; returns the one that stands.
  Status fail(const Status& failure);
  /// Where its processes are to see each other's promises of memory.
  platform::SharedPromises promises();
  /// Why a rank will never do anything again, empty while it may.
  [[nodiscard]] Loss gone(int rank, bool ask_kernel) const;
  /// Tells the machine of `peer`, or every other machine. Nothing where there is only one.
  void tell(int peer, const Note& note, std::span<const std::byte> text);
  void tell_all(const Note& note, std::span<const std::byte> text);
  /// Tells every other machine why the world (0), or the window that begins there, has failed.
  void tell_failure(const Status& failure, std::uint64_t window = 0, bool refused = false);

  std::shared_ptr<WorldMemory> memory_;
  const Machines machines_;
  const int rank_, size_;
  const std::chrono::milliseconds timeout_;
  const int process_;  // a child forked by this rank must not speak for it
  bool placed_ = false;
  std::optional<platform::PromiseSharing> promises_;  // where ranks are processes, once placed
  bool by_network_ = false;
  Link link_;
  std::shared_ptr<Inbox> inbox_;    // null on one machine, as remote_
  std::mutex collective_;           // one collective call of this rank at a time
  std::uint32_t exchanges_ = 0;     // ever begun
  std::size_t next_offset_ = 0;     // rank 0's: where the next window begins; never reused
  std::shared_ptr<Remote> remote_;  // ends before what it serves
};

/// One world of `size` thread ranks in this process.
Result<std::vector<std::shared_ptr<World>>> make_thread_worlds(int size,
                                                               std::chrono::milliseconds timeout);

/// Joins the world whose memory file an ancestor made with make_rendezvous(). Collective over that
/// world. The descriptor stays open; it is no longer inherited by programs that this one starts.
/// Errors: kIo, kMismatch (not a world, other version or size), kInvalidArgument (rank taken),
/// kTimeout, kPeerLost (a rank ended before it joined).
Result<std::shared_ptr<World>> join_world(int rank, int size, int fd,
                                          std::chrono::milliseconds timeout);

/// Takes the seat; waits for nobody. From here on the others learn from the world when this rank
/// fails or goes. Errors: kInvalidArgument (the timeout).
TANDEM_INTERNAL_API Result<std::shared_ptr<World>> take_seat(MachineSeat seat,
                                                             std::chrono::milliseconds timeout);
/// Collective over all machines, the first thing that ranks do who took their seats. Errors: as
/// join_world().
TANDEM_INTERNAL_API Status join_machines(World& world);

/// Makes the memory file of a world of `size` process ranks; returns its descriptor, which the
/// ranks must inherit and the caller closes.
Result<int> make_rendezvous(int size);

/// For the launcher: the process of this rank has ended, joined or not.
void mark_ended(int fd, int size, int rank);

}  // namespace tandem::symm
