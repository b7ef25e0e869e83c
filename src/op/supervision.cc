// SPDX-License-Identifier: Apache-2.0
//
// supervise(): Escalation holds the timing, Requests what signals mean.
#include "op/supervision.h"

#include <csignal>
#include <optional>

#include <fmt/format.h>

#include "platform/process.h"
#include "symm/world.h"

namespace tandem {
namespace {

using platform::Clock;

// Ranks that notice a failed peer return an error of their own, which tells more than a signal:
// they get this long to do so, and as long again after SIGTERM. So do processes that ranks leave
// behind.
constexpr std::chrono::seconds kGrace{2};
// For what ranks do when they are interrupted. As long as container engines give.
constexpr std::chrono::seconds kInterruptedGrace{10};
// Some parents send a signal to a process and again to its group: that is one request.
constexpr std::chrono::milliseconds kSameRequest{500};

std::string describe(const platform::ProcessEnd& end) {
  if (!end.seen) {
    return fmt::format(
        "rank {} was sent signal 9 (SIGKILL), and its end was not seen: the kernel holds it, or "
        "the process that watches the ranks (tandem-reaper) was killed\n",
        end.index);
  }
  if (end.signal == 0) return fmt::format("rank {} exited with code {}\n", end.index, end.code);
  return fmt::format("rank {} was killed by signal {} ({})\n", end.index, end.signal,
                     platform::signal_name(end.signal));
}

/// From the first reason to end the ranks: time to do so by themselves, SIGTERM, kGrace, SIGKILL.
class Escalation {
 public:
  explicit Escalation(platform::ProcessGroup& group) : group_(group) {}

  /// SIGTERM comes after `grace` at the latest.
  void begin(std::chrono::seconds grace) {
    const auto when = Clock::now() + grace;
    if (!terminated_ && (!next_ || when < *next_)) next_ = when;
  }
  void kill() {
    terminated_ = true;
    next_ = Clock::now();
  }
  [[nodiscard]] Clock::time_point next() const {
    return next_.value_or(Clock::now() + std::chrono::hours(1));
  }
  void step() {
    if (!next_ || Clock::now() < *next_) return;
    if (terminated_) {
      group_.kill();
      next_.reset();
      return;
    }
    group_.signal(SIGTERM);
    terminated_ = true;
    next_ = Clock::now() + kGrace;
  }

 private:
  platform::ProcessGroup& group_;
  std::optional<Clock::time_point> next_;
  bool terminated_ = false;
};

/// Passes signals on to the ranks, and remembers what the user asked for.
class Requests {
 public:
  Requests(platform::ProcessGroup& group, platform::SignalInbox& inbox, Escalation& escalation)
      : group_(group), inbox_(inbox), escalation_(escalation) {}

  void pass_on() {
    while (const std::optional<int> signal = inbox_.take()) {
      if (*signal == SIGTSTP) {
        group_.signal(SIGSTOP);
        inbox_.stop_process();
        group_.signal(SIGCONT);
      } else if (*signal == SIGINT || *signal == SIGTERM) {
        interrupt(*signal);
      } else {
        group_.signal(*signal);
      }
    }
  }
  /// SIGINT or SIGTERM, 0 when neither has come.
  [[nodiscard]] int interrupted() const { return interrupted_; }

 private:
  void interrupt(int signal) {
    const auto now = Clock::now();
    const bool again = interrupted_ != 0;
    if (again && now - first_ >= kSameRequest) return escalation_.kill();
    if (again && signal == interrupted_) return;
    group_.signal(signal);
    escalation_.begin(kInterruptedGrace);
    interrupted_ = signal;
    if (!again) first_ = now;
  }

  platform::ProcessGroup& group_;
  platform::SignalInbox& inbox_;
  Escalation& escalation_;
  int interrupted_ = 0;
  Clock::time_point first_;
};

}  // namespace

LaunchReport supervise(platform::ProcessGroup& group, platform::SignalInbox& inbox, int fd,
                       int size) {
  LaunchReport report;
  Escalation escalation(group);
  Requests requests(group, inbox, escalation);
  do {  // at least once: ranks that are quick have all ended when they have all been started
    for (const platform::ProcessEnd& end : group.wait(escalation.next(), inbox.descriptor())) {
      // A rank that ended before it joined holds no lock for the others to miss.
      symm::mark_ended(fd, size, end.index);
      report.exits.push_back({.rank = end.index, .code = end.code, .signal = end.signal});
      if (end.code == 0) continue;
      report.summary += describe(end);
      if (report.exit_code == 0) {
        report.exit_code = end.code;
        escalation.begin(kGrace);
      }
    }
    requests.pass_on();
    if (group.running() == 0) escalation.begin(kGrace);
    escalation.step();
  } while (!group.gone());
  report.interrupted = requests.interrupted();
  return report;
}

}  // namespace tandem
