// SPDX-License-Identifier: Apache-2.0
//
// Launchpads.
#include "platform/launchpad.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tandem::platform {
namespace {

std::vector<std::string> candidates(const std::string& program) {
  if (program.find('/') != std::string::npos) return {program};
  const char* path = std::getenv("PATH");
  const std::string folders = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  std::vector<std::string> paths;
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string folder = folders.substr(begin, end - begin);
    paths.push_back((folder.empty() ? "." : folder) + "/" + program);
    begin = end + 1;
  }
  return paths;
}

std::string_view variable(std::string_view text) { return text.substr(0, text.find('=')); }

void ignore(int signal) {
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  sigaction(signal, &ignored, nullptr);
}

/// A rank starts with no signal blocked and with the standard reactions, whatever its launcher has
/// set up. What is ignored stays ignored across exec: right for SIGHUP (nohup), and for the stops
/// of background processes that use the terminal: an error (EIO) tells more than a rank that stops.
void standard_reactions() {
  for (int signal : {SIGINT, SIGTERM, SIGQUIT, SIGPIPE, SIGCHLD, SIGTSTP}) restore_default(signal);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) restore_default(SIGHUP);
  ignore(SIGTTIN);
  ignore(SIGTTOU);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// Leaves the standard descriptors, kInheritedDescriptor where there is one, and `report`.
int arrange_descriptors(int inherited, int& report) {
  // The order matters: the two descriptors may hold each other's numbers.
  const int high = fcntl(report, F_DUPFD_CLOEXEC, kInheritedDescriptor + 2);
  if (high < 0) return errno;
  if (inherited == kInheritedDescriptor) {
    fcntl(inherited, F_SETFD, 0);
  } else if (inherited >= 0) {
    if (dup2(inherited, kInheritedDescriptor) < 0) return errno;
  }
  const int reserved = inherited >= 0 ? kInheritedDescriptor + 1 : kInheritedDescriptor;
  if (dup3(high, reserved, O_CLOEXEC) < 0) return errno;
  report = reserved;
  close_range(reserved + 1, INT_MAX);
  return 0;
}

}  // namespace

Launchpad prepare(const ProcessSpec& spec) {
  Launchpad pad;
  pad.paths = candidates(spec.command.front());
  for (const std::string& argument : spec.command) pad.argv.push_back(argument.c_str());
  pad.argv.push_back(nullptr);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const auto replaced = [&](const std::string& e) { return variable(e) == variable(*entry); };
    if (std::none_of(spec.environment.begin(), spec.environment.end(), replaced)) {
      pad.texts.emplace_back(*entry);
    }
  }
  for (auto e = spec.environment.begin(); e != spec.environment.end(); ++e) {
    const auto replaced = [&](const std::string& later) { return variable(later) == variable(*e); };
    if (std::none_of(e + 1, spec.environment.end(), replaced)) pad.texts.push_back(*e);
  }
  for (const std::string& text : pad.texts) pad.envp.push_back(text.c_str());
  pad.envp.push_back(nullptr);
  constexpr std::size_t kWordBits = 8 * sizeof(unsigned long);
  for (int cpu : spec.cpus) {
    const auto index = static_cast<std::size_t>(cpu);
    if (index >= kMostCpus) continue;
    pad.cpus.words[index / kWordBits] |= 1UL << (index % kWordBits);
    pad.bind = true;
  }
  pad.terminal_input = isatty(STDIN_FILENO) == 1;
  return pad;
}

int become(const Launchpad& pad, int inherited, int& report, int parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != parent) _exit(128 + SIGKILL);  // it died before the line above
  setpgid(0, 0);
  if (const int error = arrange_descriptors(inherited, report); error != 0) return error;
  if (pad.terminal_input) {
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) return errno;
    close(nothing);
  }
  standard_reactions();
  // The launcher chose among what it may use; a refusal leaves the placement as it was.
  if (pad.bind) syscall(SYS_sched_setaffinity, 0, sizeof pad.cpus, &pad.cpus);

  int error = ENOENT;
  for (const std::string& path : pad.paths) {
    execve(path.c_str(), const_cast<char* const*>(pad.argv.data()),
           const_cast<char* const*>(pad.envp.data()));
    if (errno != ENOENT && errno != ENOTDIR) error = errno;
  }
  return error;
}

void close_range(int first, int last) {
  if (first > last) return;
  if (syscall(SYS_close_range, static_cast<unsigned>(first), static_cast<unsigned>(last), 0U) ==
      0) {
    return;
  }
  const long most = sysconf(_SC_OPEN_MAX);  // a kernel before 5.9
  for (int fd = first; fd <= std::min(last, static_cast<int>(most > 0 ? most : 1024)); ++fd) {
    close(fd);
  }
}

void restore_default(int signal) {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
}

}  // namespace tandem::platform
