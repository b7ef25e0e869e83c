// SPDX-License-Identifier: Apache-2.0
//
// ProcessGroup. The child's side of start() runs between fork and exec, perhaps in a copy of a
// process with many threads: it may only make system calls. All it needs is prepared before.
#include "platform/process.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>
#include <new>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/descriptor.h"

namespace tandem::platform {
namespace {

// How often a kernel without pidfd (before 5.3) is asked whether a child has ended.
constexpr std::chrono::milliseconds kPoll{10};

// As large as the kernel's largest configuration, so that any hardware thread fits.
constexpr std::size_t kMostCpus = 8192;
struct CpuBits {
  unsigned long words[kMostCpus / (8 * sizeof(unsigned long))] = {};
};

/// Everything that the child needs, in memory that it need not allocate.
struct Launchpad {
  std::vector<std::string> paths;  // candidates for the program, in PATH order
  std::vector<const char*> argv;   // ending in null
  std::vector<std::string> texts;  // of the environment
  std::vector<const char*> envp;   // ending in null
  CpuBits cpus;
  bool bind = false;
  int inherited = -1;
  int report = -1;  // pipe: errno when exec fails, closed by exec when it works
  pid_t parent = 0;
};

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
  pad.inherited = spec.inherited;
  pad.parent = getpid();
  return pad;
}

void close_from(int first) {
  if (syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, 0U) == 0) return;
  const long most = sysconf(_SC_OPEN_MAX);  // a kernel before 5.9
  for (int fd = first; fd < static_cast<int>(most > 0 ? most : 1024); ++fd) close(fd);
}

void restore_default(int signal) {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
}

/// The child, up to exec. All signals are blocked when it begins. Returns only when it fails, with
/// errno.
void become(Launchpad& pad) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != pad.parent) _exit(128 + SIGKILL);  // it died before the line above

  occupy_standard();
  // The order matters: the two descriptors may hold each other's numbers.
  int report = fcntl(pad.report, F_DUPFD_CLOEXEC, kInheritedDescriptor + 2);
  if (report < 0) return;
  if (pad.inherited == kInheritedDescriptor) {
    fcntl(pad.inherited, F_SETFD, 0);
  } else if (pad.inherited >= 0) {
    if (dup2(pad.inherited, kInheritedDescriptor) < 0) return;
  }
  const int reserved = pad.inherited >= 0 ? kInheritedDescriptor + 1 : kInheritedDescriptor;
  if (dup3(report, reserved, O_CLOEXEC) < 0) return;
  report = pad.report = reserved;
  close_from(reserved + 1);

  // A rank starts with no signal blocked and with the standard reactions, whatever this process
  // has set up; what is ignored stays ignored across exec, which is right for SIGHUP alone (nohup).
  for (int signal : {SIGINT, SIGTERM, SIGQUIT, SIGPIPE, SIGCHLD}) restore_default(signal);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) restore_default(SIGHUP);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // The launcher chose among what it may use; a refusal leaves the placement as it was.
  if (pad.bind) syscall(SYS_sched_setaffinity, 0, sizeof pad.cpus, &pad.cpus);

  int error = ENOENT;
  for (const std::string& path : pad.paths) {
    execve(path.c_str(), const_cast<char* const*>(pad.argv.data()),
           const_cast<char* const*>(pad.envp.data()));
    if (errno != ENOENT && errno != ENOTDIR) error = errno;
  }
  errno = error;
}

int open_handle(pid_t pid) {
  return above_standard(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

// What the signal handler reads: pids of the children, 0 where there is none. And what it leaves
// for start(): how many signals came, and the last one. A signal that comes while a child is
// started must reach it: the handler counts, then reads pids; start() writes the pid, then looks
// at the count. All are seq_cst, so at least one of the two sees the other (and when both do, the
// child gets the signal twice, as it may with any signal).
std::array<std::atomic<int>, ProcessGroup::kMostProcesses> forward_to{};
std::atomic<int> last_signal{0};
std::atomic<unsigned> signals_seen{0};
constexpr std::array kForwarded{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
struct sigaction previous[kForwarded.size()];

void forward(int signal, siginfo_t* info, void*) {
  // Ctrl-C and Ctrl-\ reach the whole foreground group by themselves: do not double them.
  if (info->si_code == SI_KERNEL && (signal == SIGINT || signal == SIGQUIT)) return;
  const int saved = errno;
  last_signal.store(signal);
  signals_seen.fetch_add(1);
  for (std::atomic<int>& pid : forward_to) {
    const int target = pid.load();
    if (target > 0) kill(target, signal);
  }
  errno = saved;
}

Status open_pipe(int (&ends)[2]) {
  if (pipe2(ends, O_CLOEXEC) == 0) {
    ends[0] = above_standard(ends[0]);
    ends[1] = above_standard(ends[1]);
    if (ends[0] >= 0 && ends[1] >= 0) return {};
    const int error = errno;
    for (int end : ends) {
      if (end >= 0) close(end);
    }
    errno = error;
  }
  return {StatusCode::kIo, fmt::format("cannot open a pipe: {}", strerrordesc_np(errno))};
}

}  // namespace

int process_id() {
  // A page that the kernel empties in every child, however it was forked (Linux 4.14).
  static std::atomic<int>* const known = [] {
    const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return static_cast<std::atomic<int>*>(nullptr);
    if (madvise(page, bytes, MADV_WIPEONFORK) == 0) return new (page) std::atomic<int>(0);
    munmap(page, bytes);
    return static_cast<std::atomic<int>*>(nullptr);
  }();
  if (known == nullptr) return getpid();
  // Relaxed: every thread that finds it empty writes the same.
  int id = known->load(std::memory_order_relaxed);
  if (id == 0) {
    id = getpid();
    known->store(id, std::memory_order_relaxed);
  }
  return id;
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

ProcessGroup::~ProcessGroup() {
  end_all(Ending::kill);
  while (running_ > 0) wait(Clock::now() + std::chrono::seconds(1));
}

Status ProcessGroup::start(const ProcessSpec& spec) {
  if (spec.command.empty() || spec.command.front().empty()) {
    return {StatusCode::kInvalidArgument, "the command is empty; name a program to start"};
  }
  if (children_.size() >= kMostProcesses) {
    return {StatusCode::kInvalidArgument,
            fmt::format("more than {} processes were asked for", kMostProcesses)};
  }
  Launchpad pad = prepare(spec);
  int ends[2];
  if (Status s = open_pipe(ends); !s.ok()) return s;
  pad.report = ends[1];
  const unsigned signals_before = signals_seen.load();
  sigset_t all, mask;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &mask);
  const pid_t pid = fork();
  if (pid == 0) {
    become(pad);
    const int error = errno;
    (void)!write(pad.report, &error, sizeof error);
    _exit(127);
  }
  const int fork_error = errno;
  std::atomic<int>& forwarded = forward_to[children_.size()];
  if (pid > 0) {
    forwarded.store(pid);
    if (signals_seen.load() != signals_before) kill(pid, last_signal.load());
  }
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  close(ends[1]);
  int error = 0;
  ssize_t got = 0;
  if (pid > 0) {
    while ((got = read(ends[0], &error, sizeof error)) < 0 && errno == EINTR) {
    }
  }
  close(ends[0]);
  if (pid < 0) {
    return {StatusCode::kOutOfMemory,
            fmt::format("cannot start a process for '{}': {}; raise `ulimit -u` or pids.max",
                        spec.command.front(), strerrordesc_np(fork_error))};
  }
  if (got == static_cast<ssize_t>(sizeof error)) {
    forwarded.store(0);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    const bool missing = error == ENOENT || error == ENOTDIR;
    return {missing ? StatusCode::kInvalidArgument : StatusCode::kIo,
            fmt::format("cannot start '{}': {}; check the name, PATH and the permissions",
                        spec.command.front(), strerrordesc_np(error))};
  }
  children_.push_back({pid, open_handle(pid)});
  ++running_;
  return {};
}

std::vector<ProcessEnd> ProcessGroup::wait(Clock::time_point deadline) {
  std::vector<ProcessEnd> ends;
  for (;;) {
    std::vector<pollfd> handles;
    bool all_have_handles = true;
    for (std::size_t i = 0; i < children_.size(); ++i) {
      Child& child = children_[i];
      if (child.pid == 0) continue;
      siginfo_t info{};
      const auto id = static_cast<id_t>(child.pid);
      if (waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
        handles.push_back({.fd = child.handle, .events = POLLIN, .revents = 0});
        all_have_handles = all_have_handles && child.handle >= 0;
        continue;
      }
      // Withdrawn before it is reaped: the handler must not hit a later process of this number.
      forward_to[i].store(0);
      waitid(P_PID, id, &info, WEXITED);
      if (child.handle >= 0) close(child.handle);
      child = {};
      --running_;
      const bool exited = info.si_code == CLD_EXITED;
      ends.push_back({.index = static_cast<int>(i),
                      .code = exited ? info.si_status : 128 + info.si_status,
                      .signal = exited ? 0 : info.si_status});
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (!ends.empty() || handles.empty() || left.count() <= 0) return ends;
    // Two children that end between these looks come together; they are ordered by number.
    const auto longest = all_have_handles ? std::chrono::milliseconds(INT_MAX) : kPoll;
    poll(handles.data(), handles.size(), static_cast<int>(std::min(left, longest).count()));
  }
}

void ProcessGroup::end_all(Ending how) {
  for (const Child& child : children_) {
    if (child.pid > 0) kill(child.pid, how == Ending::kill ? SIGKILL : SIGTERM);
  }
}

SignalForwarding::SignalForwarding(const ProcessGroup&) {
  struct sigaction action {};
  action.sa_sigaction = forward;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (std::size_t i = 0; i < kForwarded.size(); ++i) {
    sigaction(kForwarded[i], nullptr, &previous[i]);
    const bool ignored =
        (previous[i].sa_flags & SA_SIGINFO) == 0 && previous[i].sa_handler == SIG_IGN;
    if (!ignored) sigaction(kForwarded[i], &action, nullptr);
  }
}

SignalForwarding::~SignalForwarding() {
  for (std::size_t i = 0; i < kForwarded.size(); ++i)
    sigaction(kForwarded[i], &previous[i], nullptr);
  for (std::atomic<int>& pid : forward_to) pid.store(0);
}

}  // namespace tandem::platform
