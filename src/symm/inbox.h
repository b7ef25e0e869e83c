// SPDX-License-Identifier: Apache-2.0
//
// Inbox: what a process does on its machine for ranks of other machines: it acts on their notes and
// tells where their cargo lands. One per process; the thread that serves the network calls act(),
// accept() and arrived(). Everything that comes from outside is checked here, once, before memory
// is touched or taken on its word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "base/internal_api.h"
#include "symm/machines.h"
#include "symm/note.h"
#include "symm/window_memory.h"

namespace tandem::symm {

class WorldMemory;

class TANDEM_INTERNAL_API Inbox {
 public:
  Inbox(std::shared_ptr<WorldMemory> world, const Machines& machines, int rank);

  /// Acts on a note of `source`; not on cargo. False when the note makes no sense.
  bool act(int source, const Note& note, std::span<const std::byte> text);
  /// Where a cargo of `source` lands: in `window`, which stays mapped as long as the caller holds
  /// it; all bytes of the cargo lie in memory of its part. Null when that window is closed here:
  /// then its bytes are of no interest. False when the cargo makes no sense, or is larger than
  /// anything that an address space holds.
  [[nodiscard]] bool accept(int source, const Cargo& cargo, std::shared_ptr<WindowMemory>& window);
  /// All bytes of an accepted cargo are there.
  static void arrived(const Cargo& cargo, WindowMemory& window);
  /// This rank's own cargo has left its memory: whoever waits for that looks again.
  void sent(std::uint64_t window);

  void open(std::shared_ptr<WindowMemory> window);
  /// This rank has destroyed its end. Its memory stays mapped until every source has left.
  void close(std::uint64_t window);
  /// The window was never made: nothing comes for it.
  void forget(std::uint64_t window);

  /// The network is lost: publishes that as the failure of the world and of every window, on this
  /// machine. Also where memory is short.
  void fail(const Status& failure) noexcept;

  /// The network ends before this rank's world does: leaves every window and the world, as their
  /// destructors would. `tell` passes on what the other machines must hear of it.
  using Tell = std::function<void(const Note& note, std::span<const std::byte> text)>;
  void leave(const Tell& tell);

  /// Looks whether ranks of this machine have died, and tells the other machines: there nobody can
  /// see it, and here perhaps nobody waits for them. Two system calls per rank. The thread that
  /// serves the network, now and then.
  void report_dead(const Tell& tell);

  /// Whether all other ranks of this machine have left: nobody needs what this process receives.
  [[nodiscard]] bool alone() const;
  /// Whether the world has failed.
  [[nodiscard]] bool failed() const;
  /// Whether a rank of another machine is known to have ended: it takes nothing any longer.
  [[nodiscard]] bool ended(int rank) const;
  /// Whether every source that this process receives has left.
  [[nodiscard]] bool sources_left() const;

 private:
  struct OpenWindow {
    std::shared_ptr<WindowMemory> memory;
    std::uint64_t sources = 0;  ///< that this process receives and that have not left
    bool closed = false;        ///< by this rank
  };
  [[nodiscard]] std::shared_ptr<WindowMemory> find(std::uint64_t window);
  [[nodiscard]] bool fits(int source, const Cargo& cargo, const WindowMemory& window) const;
  void source_left(int source, std::uint64_t window);
  [[nodiscard]] bool has_left(int rank) const;
  void mark_ended(int rank);

  const std::shared_ptr<WorldMemory> world_;
  const Machines machines_;
  const int rank_;
  std::uint64_t reported_ = 0;  ///< of this machine, as dead; the network's thread only
  std::uint64_t sources_ = 0;   ///< that this process receives, a bit each
  std::mutex mutex_;            // guards windows_
  std::map<std::uint64_t, OpenWindow> windows_;
};

}  // namespace tandem::symm
