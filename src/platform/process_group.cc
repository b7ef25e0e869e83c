// SPDX-License-Identifier: Apache-2.0
//
// ProcessGroup: the launcher's side of a reaper. Start reading at start(), then hear().
#include "platform/process_group.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/descriptor.h"

namespace tandem::platform {
namespace {

constexpr std::chrono::seconds kLongestStart{60};

Status check(const std::vector<ProcessSpec>& specs) {
  if (specs.size() > ProcessGroup::kMostProcesses) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} processes were asked for, at most {} are possible", specs.size(),
                        ProcessGroup::kMostProcesses)};
  }
  for (const ProcessSpec& spec : specs) {
    if (spec.command.empty() || spec.command.front().empty()) {
      return {StatusCode::kInvalidArgument, "the command is empty; name a program to start"};
    }
  }
  return {};
}

Status not_made(int error) {
  return {StatusCode::kOutOfMemory,
          fmt::format("cannot start a process: {}; raise `ulimit -u` or pids.max",
                      strerrordesc_np(error))};
}

Status not_run(const std::string& program, int error) {
  const bool missing = error == ENOENT || error == ENOTDIR;
  return {missing ? StatusCode::kInvalidArgument : StatusCode::kIo,
          fmt::format("cannot start '{}': {}; check the name, PATH and the permissions", program,
                      strerrordesc_np(error))};
}

int poll_time(Clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
}

}  // namespace

ProcessGroup::~ProcessGroup() {
  kill();
  while (!gone()) {
    ends_.clear();
    watch(Clock::now() + kLongestKill, -1);
  }
}

Status ProcessGroup::start(const std::vector<ProcessSpec>& specs, int inherited) {
  if (Status s = check(specs); !s.ok()) return s;
  std::vector<Launchpad> pads;
  for (const ProcessSpec& spec : specs) pads.push_back(prepare(spec));
  members_.resize(specs.size());
  ends_.reserve(specs.size());
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0 || !above_standard(ends)) {
    return {StatusCode::kIo, fmt::format("cannot open a pair of sockets: {}; raise `ulimit -n`",
                                         strerrordesc_np(errno))};
  }
  sigset_t all, mask;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &mask);
  reaper_ = fork();
  if (reaper_ == 0) run_reaper(pads, inherited, ends[1]);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  close(ends[1]);
  if (reaper_ < 0) {
    close(ends[0]);
    return not_made(fork_error);
  }
  socket_ = ends[0];

  const Deadline deadline = Deadline::after(kLongestStart);
  while (!all_run_) {
    pollfd news{.fd = socket_, .events = POLLIN, .revents = 0};
    poll(&news, 1, poll_time(deadline.moment()));
    hear();
    if (refusal_ && refusal_->kind == ReaperEvent::not_made) return not_made(refusal_->value);
    if (refusal_) {
      return not_run(specs[static_cast<std::size_t>(refusal_->index)].command.front(),
                     refusal_->value);
    }
    if (gone() && !all_run_) {
      return {StatusCode::kIo, "the process that starts the others (tandem-reaper) was killed"};
    }
    if (deadline.passed()) {
      return {StatusCode::kTimeout,
              fmt::format("'{}' had not been started after {} s; does its file system answer?",
                          specs.front().command.front(), kLongestStart.count())};
    }
  }
  return {};
}

void ProcessGroup::take(const ReaperEvent& event) {
  const auto at = static_cast<std::size_t>(event.index);
  switch (event.kind) {
    case ReaperEvent::started:
      members_[at].pid = event.value;
      ++running_;
      break;
    case ReaperEvent::not_made:
    case ReaperEvent::not_run:
      refusal_ = event;
      break;
    case ReaperEvent::all_run:
      all_run_ = true;
      break;
    case ReaperEvent::ended:
      members_[at].ended = true;
      --running_;
      ends_.push_back({.index = event.index, .code = event.value, .signal = event.signal});
      break;
    case ReaperEvent::all_gone:
      lose_reaper();
      break;
  }
}

/// Takes what the reaper has said. Its silence for good is the same as its last word.
void ProcessGroup::hear() {
  while (socket_ >= 0) {
    ReaperEvent event;
    const ssize_t got = recv(socket_, &event, sizeof event, MSG_DONTWAIT);
    if (got == ssize_t{sizeof event}) {
      take(event);
    } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    } else {
      lose_reaper();
    }
  }
}

/// The reaper has ended, or is about to. When it was killed, so were its children, by the kernel;
/// theirs are reached through their groups, as nothing watches those any more.
void ProcessGroup::lose_reaper() {
  close(socket_);
  socket_ = -1;
  while (waitpid(reaper_, nullptr, 0) < 0 && errno == EINTR) {
  }
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (member.pid == 0 || member.ended) continue;
    ::kill(-member.pid, SIGKILL);
    member.ended = true;
    --running_;
    ends_.push_back(
        {.index = static_cast<int>(i), .code = 128 + SIGKILL, .signal = SIGKILL, .seen = false});
  }
}

void ProcessGroup::watch(Clock::time_point until, int other) {
  while (ends_.empty() && !gone()) {
    std::array<pollfd, 2> news{{{.fd = socket_, .events = POLLIN, .revents = 0},
                                {.fd = other, .events = POLLIN, .revents = 0}}};
    poll(news.data(), news.size(), poll_time(killed_ ? killed_->or_before(until) : until));
    hear();
    if (!gone() && killed_ && killed_->passed()) {
      ::kill(reaper_, SIGKILL);
      lose_reaper();
    }
    if (news[1].revents != 0 || Clock::now() >= until) break;
  }
}

std::vector<ProcessEnd> ProcessGroup::wait(Clock::time_point until, int other) {
  watch(until, other);
  std::vector<ProcessEnd> ends = ends_;
  ends_.clear();
  return ends;
}

void ProcessGroup::signal(int signal) {
  if (!gone() && !killed_) (void)!send(socket_, &signal, sizeof signal, MSG_NOSIGNAL);
}

void ProcessGroup::kill() {
  if (gone() || killed_) return;
  shutdown(socket_, SHUT_WR);
  killed_ = Deadline::after(kLongestKill, std::chrono::seconds(5));
}

}  // namespace tandem::platform
