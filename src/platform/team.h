// SPDX-License-Identifier: Apache-2.0
//
// Team: threads that live as long as an operator and sleep between its calls. start() hands each
// of the first `count` members the same job with its own index; join() returns when all are done.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "platform/park.h"
#include "tandem/status.h"

namespace tandem::platform {

enum class Pace : std::uint8_t {
  steady,  ///< long stretches of work
  brief,   ///< short bursts between sleeps, which should begin soon after waking
};

class Team {
 public:
  /// Starts `size` threads (0 is allowed). `spin` bounds how long an idle member, and join(), poll
  /// before they park. Errors: kOutOfMemory / kIo when the system refuses a thread.
  /// `pace` says how the members share cores with busy threads.
  static Result<std::unique_ptr<Team>> create(int size, std::string_view name, Spin spin,
                                              Pace pace = Pace::steady);
  ~Team();  ///< waits for a running job, ends the threads
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(threads_.size()); }
  /// Runs job(0) … job(count - 1) on the members, 0 ≤ count ≤ size(). The job must not throw. One
  /// job at a time: a start() that finds one running first waits for it.
  void start(int count, std::function<void(int)> job);
  /// Returns when every member of the last start() has finished; at once when there was none.
  void join();

 private:
  /// One member's mailbox, on a cache line of its own so that members do not disturb each other.
  struct alignas(64) Mailbox {
    std::atomic<std::uint32_t> word{0};  // job number · 2, plus 1 while the member is parked
  };

  Team(int size, Spin spin, Pace pace)
      : spin_(spin), pace_(pace), mailboxes_(static_cast<std::size_t>(size)) {}
  void serve(int index);
  void keep_off_this_core();
  void post(Mailbox& mailbox);

  const Spin spin_;
  const Pace pace_;
  std::vector<Mailbox> mailboxes_;
  std::function<void(int)> job_;  // written while nobody runs; post() publishes it
  bool ending_ = false;           // likewise
  alignas(64) std::atomic<std::uint32_t> unfinished_{0};  // members, plus kParked while join() is
  int avoided_ = -1;  // hardware thread that the members keep off
  std::vector<std::thread> threads_;
};

}  // namespace tandem::platform
