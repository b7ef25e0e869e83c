// SPDX-License-Identifier: Apache-2.0
//
// Team: threads that live as long as an operator and sleep between its calls. start() hands each
// of the first `count` members the same job with its own index; join() returns when all are done,
// with the first member's failure. What a job throws becomes such a failure.
//
// Members differ from the threads of the caller: they have precise timers and, where brief, short
// turns. Nothing of the caller's own thread (CPUs, timer slack, scheduling class) is ever changed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "base/internal_api.h"
#include "platform/park.h"
#include "platform/process.h"
#include "platform/topology.h"
#include "tandem/status.h"

namespace tandem::platform {

enum class Pace : std::uint8_t {
  steady,  ///< long stretches of work
  brief,   ///< short bursts between sleeps, which should begin soon after waking
};

class TANDEM_INTERNAL_API Team {
 public:
  /// Starts `size` threads (0 is allowed). `spin` bounds how long an idle member, and join(), poll
  /// before they park. Errors: kOutOfMemory / kIo when the system refuses a thread.
  /// `pace` says how the members share cores with busy threads. The members may use the CPUs that
  /// the calling thread may use now, whatever it is bound to later.
  static Result<std::unique_ptr<Team>> create(int size, std::string_view name, Spin spin,
                                              Pace pace = Pace::steady);
  /// Waits for a running job, ends the threads. In a forked child, where they do not exist, it
  /// leaves everything alone.
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(threads_.size()); }
  using Job = std::function<Status(int)>;
  /// Runs job(0) … job(count - 1) on the members, 0 ≤ count ≤ size(). One job at a time: a start()
  /// that finds one running first waits for it. Throws std::bad_alloc (of std::function) before any
  /// member has begun, or not at all. Must not be called in a forked child.
  void start(int count, Job job);
  /// Returns when every member of the last start() has finished, with the failure of the lowest
  /// member that had one; at once when there was none. As long as the job takes: jobs bound their
  /// own waits. Errors also: kUnsupported in a forked child, where nobody would ever finish.
  Status join();

 private:
  /// One member's mailbox, on a cache line of its own so that members do not disturb each other.
  struct alignas(64) Mailbox {
    std::atomic<std::uint32_t> word{0};  // job number · 2, plus 1 while the member is parked
  };

  Team(int size, Spin spin, Pace pace)
      : spin_(spin),
        pace_(pace),
        cpus_(CpuSet::of_this_thread()),
        mailboxes_(static_cast<std::size_t>(size)),
        outcomes_(static_cast<std::size_t>(size)) {}
  void serve(int index);
  [[nodiscard]] bool in_child() const;
  void keep_off_this_core();
  void post(Mailbox& mailbox);

  const int process_ = process_id();
  const Spin spin_;
  const Pace pace_;
  const CpuSet cpus_;  // that the members may use, as the creating thread at create()
  std::vector<Mailbox> mailboxes_;
  std::vector<Status> outcomes_;  // by member, of the last job; join() reads them
  Job job_;                       // written while nobody runs; post() publishes it
  bool ending_ = false;           // likewise
  alignas(64) std::atomic<std::uint32_t> unfinished_{0};  // members, plus kParked while join() is
  int avoided_ = -1;  // hardware thread that the members keep off
  std::vector<std::thread> threads_;
};

}  // namespace tandem::platform
