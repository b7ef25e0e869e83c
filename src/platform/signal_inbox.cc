// SPDX-License-Identifier: Apache-2.0
//
// SignalInbox: a handler that writes the signal's number into a pipe.
#include "platform/signal_inbox.h"

#include <array>
#include <atomic>
#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "platform/descriptor.h"

namespace tandem::platform {
namespace {

struct Taken {
  int signal;
  bool from_handlers;  // else only from the default action
  bool taken = false;
  struct sigaction before {};
};
std::array<Taken, 7> all_taken{{{SIGINT, true},
                                {SIGTERM, true},
                                {SIGHUP, true},
                                {SIGQUIT, true},
                                {SIGUSR1, false},
                                {SIGUSR2, false},
                                {SIGTSTP, false}}};

// The pipe may be closed when nobody can write to it any more. A handler counts itself, then reads
// the number; the destructor takes the number away, then looks at the count. All are seq_cst, so
// one of the two sees the other.
std::atomic<int> pipe_end{-1};
std::atomic<int> handlers{0};

void put(int signal) {
  const int saved = errno;
  handlers.fetch_add(1);
  const auto number = static_cast<unsigned char>(signal);
  if (const int fd = pipe_end.load(); fd >= 0) (void)!write(fd, &number, 1);
  handlers.fetch_sub(1);
  errno = saved;
}

void take_over(Taken& entry) {
  struct sigaction& before = entry.before;
  sigaction(entry.signal, nullptr, &before);
  const bool plain = (before.sa_flags & SA_SIGINFO) == 0;
  const bool ignored = plain && before.sa_handler == SIG_IGN;
  const bool standard = plain && before.sa_handler == SIG_DFL;
  entry.taken = !ignored && (standard || entry.from_handlers);
  if (!entry.taken) return;
  struct sigaction action {};
  action.sa_handler = put;
  action.sa_flags = SA_RESTART;
  sigaction(entry.signal, &action, nullptr);
}

void give_back(Taken& entry) {
  if (entry.taken) sigaction(entry.signal, &entry.before, nullptr);
  entry.taken = false;
}

}  // namespace

Status SignalInbox::open() {
  if (pipe2(ends_, O_CLOEXEC | O_NONBLOCK) != 0 || !above_standard(ends_)) {
    return {StatusCode::kIo, fmt::format("cannot open a pipe for signals: {}; raise `ulimit -n`",
                                         strerrordesc_np(errno))};
  }
  pipe_end.store(ends_[1]);
  for (Taken& entry : all_taken) take_over(entry);
  return {};
}

SignalInbox::~SignalInbox() {
  if (ends_[0] < 0) return;
  for (Taken& entry : all_taken) give_back(entry);
  pipe_end.store(-1);
  while (handlers.load() != 0) sched_yield();
  close(ends_[0]);
  close(ends_[1]);
}

std::optional<int> SignalInbox::take() {
  unsigned char number = 0;
  if (read(ends_[0], &number, 1) != 1) return std::nullopt;
  return number;
}

void SignalInbox::stop_process() {
  for (Taken& entry : all_taken) {
    if (entry.signal != SIGTSTP) continue;
    give_back(entry);
    sigset_t stop, mask;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &stop, &mask);
    raise(SIGTSTP);
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    take_over(entry);
  }
}

}  // namespace tandem::platform
