// SPDX-License-Identifier: Apache-2.0
//
// The reaper's loop. It is the only one that waits for its children, and each rank leads a process
// group of its own. Which group a number means is therefore certain while a child of this process,
// running or not yet waited for, is in it.
#include "platform/reaper.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/descriptor.h"
#include "platform/park.h"
#include "platform/process_group.h"

namespace tandem::platform {
namespace {

// Children of killed processes come to the reaper one generation at a time.
constexpr int kKillRoundMs = 20;

/// How a process that never became its program says why.
struct Refusal {
  int index = 0;
  int error = 0;
};

class Reaper {
 public:
  Reaper(std::span<const Launchpad> pads, int inherited, int socket)
      : pads_(pads), inherited_(inherited), socket_(socket) {}

  void start();
  void keep();

 private:
  void tell(const ReaperEvent& event) const {
    // A launcher that does not listen is dead, which poll() says too.
    (void)!send(socket_, &event, sizeof event, MSG_NOSIGNAL);
  }
  void collect();
  void hear_refusals();
  void obey();
  void signal_all(int signal) const;
  void signal_strays(int signal) const;
  [[nodiscard]] bool leads_group(pid_t pid) const {
    return std::find(groups_.begin(), groups_.begin() + made_, pid) != groups_.begin() + made_;
  }

  const std::span<const Launchpad> pads_;
  const int inherited_, socket_;
  // When it had died before this line, its end of the socket is shut.
  const pid_t launcher_ = getppid();
  int signals_ = -1;   // readable when a child has ended or the launcher has
  int refusals_ = -1;  // pipe; -1 once every process has become its program
  std::array<pid_t, ProcessGroup::kMostProcesses> groups_{};  // pid of each first process
  std::array<bool, ProcessGroup::kMostProcesses> running_{};
  int made_ = 0;
  bool childless_ = false;
  bool killing_ = false;
  Clock::time_point give_up_;
};

void Reaper::start() {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  sigaddset(&watched, SIGTERM);
  signals_ = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
  int ends[2] = {-1, -1};
  if (signals_ < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    tell({.kind = ReaperEvent::not_made, .value = errno});
    _exit(1);
  }
  refusals_ = ends[0];
  const pid_t self = getpid();
  for (std::size_t i = 0; i < pads_.size(); ++i) {
    const int index = static_cast<int>(i);
    const pid_t pid = fork();
    if (pid == 0) {
      int report = ends[1];
      const Refusal refusal{.index = index, .error = become(pads_[i], inherited_, report, self)};
      (void)!write(report, &refusal, sizeof refusal);
      _exit(127);
    }
    if (pid < 0) {
      tell({.kind = ReaperEvent::not_made, .index = index, .value = errno});
      break;
    }
    setpgid(pid, pid);  // the child does the same: whoever comes first
    groups_[i] = pid;
    running_[i] = true;
    made_ = index + 1;
    tell({.kind = ReaperEvent::started, .index = index, .value = pid});
  }
  close(ends[1]);
}

/// Waits for every child that has ended, its own or one that came to it.
void Reaper::collect() {
  for (;;) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0) {
      if (errno == EINTR) continue;
      childless_ = errno == ECHILD;
      return;
    }
    if (info.si_pid == 0) return;
    for (int i = 0; i < made_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (groups_[at] != info.si_pid || !running_[at]) continue;
      running_[at] = false;
      const bool exited = info.si_code == CLD_EXITED;
      tell({.kind = ReaperEvent::ended,
            .index = i,
            .value = exited ? info.si_status : 128 + info.si_status,
            .signal = exited ? 0 : info.si_status});
    }
  }
}

void Reaper::hear_refusals() {
  Refusal refusal;
  ssize_t got = 0;
  while ((got = read(refusals_, &refusal, sizeof refusal)) == ssize_t{sizeof refusal}) {
    tell({.kind = ReaperEvent::not_run, .index = refusal.index, .value = refusal.error});
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  close(refusals_);
  refusals_ = -1;
  tell({.kind = ReaperEvent::all_run});
}

void Reaper::obey() {
  int signal = 0;
  const ssize_t got = recv(socket_, &signal, sizeof signal, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got == ssize_t{sizeof signal}) return signal_all(signal);
  killing_ = true;
}

void Reaper::signal_all(int signal) const {
  for (int i = 0; i < made_; ++i) {
    const pid_t group = groups_[static_cast<std::size_t>(i)];
    siginfo_t info;
    const bool ours =
        waitid(P_PGID, static_cast<id_t>(group), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    if (ours) kill(-group, signal);
  }
  signal_strays(signal);
}

/// Children that have left the groups of the ranks, as daemons do.
void Reaper::signal_strays(int signal) const {
  const int file = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  if (file < 0) return;  // a kernel without it: only the groups are reached
  char text[1024];
  pid_t pid = 0;
  for (ssize_t got = 0; (got = read(file, text, sizeof text)) > 0;) {
    for (const char* c = text; c < text + got; ++c) {
      if (*c >= '0' && *c <= '9') {
        pid = pid * 10 + (*c - '0');
        continue;
      }
      const pid_t group = pid > 0 ? getpgid(pid) : -1;
      if (group > 0 && !leads_group(group)) kill(group == pid ? -pid : pid, signal);
      pid = 0;
    }
  }
  close(file);
}

void Reaper::keep() {
  for (;;) {
    collect();
    if (childless_ && refusals_ < 0) break;
    if (killing_) {
      if (give_up_ == Clock::time_point()) give_up_ = Clock::now() + kLongestKill;
      if (Clock::now() >= give_up_) break;
      signal_all(SIGKILL);
    }
    std::array<pollfd, 3> news{{{.fd = signals_, .events = POLLIN, .revents = 0},
                                {.fd = refusals_, .events = POLLIN, .revents = 0},
                                {.fd = killing_ ? -1 : socket_, .events = POLLIN, .revents = 0}}};
    poll(news.data(), news.size(), killing_ ? kKillRoundMs : -1);
    signalfd_siginfo signal;
    while (read(signals_, &signal, sizeof signal) > 0) {
    }
    if (news[1].revents != 0) hear_refusals();
    if (news[2].revents != 0) obey();
    if (getppid() != launcher_) killing_ = true;
  }
  tell({.kind = ReaperEvent::all_gone});
}

}  // namespace

void run_reaper(std::span<const Launchpad> pads, int inherited, int socket) {
  prctl(PR_SET_NAME, "tandem-reaper", 0, 0, 0);
  // For this process and the ranks: nothing opened from here on is a standard descriptor.
  occupy_standard();
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  // Beside the end of the socket: a child of the launcher may hold a copy of its other end.
  prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
  // A group of its own, so that a signal to the launcher's whole group, be it SIGKILL, spares it.
  setpgid(0, 0);
  // Where the launcher ignores it, nobody could wait for a child.
  restore_default(SIGCHLD);
  const int low = inherited < 0 ? socket : std::min(inherited, socket);
  const int high = std::max(inherited, socket);
  close_range(STDERR_FILENO + 1, low - 1);
  close_range(std::max(low, STDERR_FILENO) + 1, high - 1);
  close_range(std::max(high, STDERR_FILENO) + 1, INT_MAX);
  Reaper reaper(pads, inherited, socket);
  reaper.start();
  reaper.keep();
  _exit(0);
}

}  // namespace tandem::platform
