// SPDX-License-Identifier: Apache-2.0
//
// sweep(). The child's side is child(); it speaks to its parent through a pipe, in text.
#include "tests/fault/broken_run.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fault/failing_new.h"

namespace tandem::testing_fault {
namespace {

constexpr unsigned kMostSeconds = 40;  // of a child: far beyond every deadline in it
constexpr int kToldInFull = 3;         // failures of a sweep

struct Point {
  std::uint64_t number = 0;
  Failing how = Failing::once;
  [[nodiscard]] std::string text() const {
    return fmt::format("allocation {}{}", number, how == Failing::once ? "" : " and all later");
  }
};

struct Ending {
  bool right = false;
  std::uint64_t allocations = 0;
  std::string text;
};

std::size_t entries(const char* folder) {
  namespace fs = std::filesystem;
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

/// A thread that was joined stays in its folder for a moment.
bool comes_back_to(const char* folder, std::size_t before) {
  for (int look = 0; look < 200; ++look) {
    if (entries(folder) <= before) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

int told = -1;  // where a child speaks

void tell_crash(int signal) {
  constexpr char kFailed[] = "it failed here:\n", kSignal[] = "the signal came here:\n";
  (void)!write(told, kFailed, sizeof kFailed - 1);
  write_stack_of_failure(told);
  void* here[48];
  (void)!write(told, kSignal, sizeof kSignal - 1);
  backtrace_symbols_fd(here, backtrace(here, 48), told);
  ::signal(signal, SIG_DFL);
  raise(signal);
}

/// What is wrong with these endings, empty when nothing is.
std::string judge(const std::vector<Status>& outcomes, bool must_succeed) {
  std::string wrong;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const Status& s = outcomes[i];
    if (s.ok()) continue;
    const bool lied = s.code() == StatusCode::kInternal || s.code() == StatusCode::kTimeout;
    if (!lied && !must_succeed) continue;
    wrong += fmt::format("outcome {} is {}: {}\n", i, name(s.code()), s.message());
  }
  return wrong;
}

/// Nothing that is thrown may leave it: there the parent's code would go on, in the child.
[[noreturn]] void child(const Sequence& sequence, Point point, int pipe) noexcept {
  told = pipe;
  for (int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGALRM}) ::signal(signal, tell_crash);
  alarm(kMostSeconds);
  const std::size_t threads = entries("/proc/self/task"), files = entries("/proc/self/fd");

  fail_allocation(point.number, point.how);
  const std::vector<Status> outcomes = sequence();
  const std::uint64_t allocations = stop_failing();

  std::string wrong = judge(outcomes, point.number == 0);
  if (!comes_back_to("/proc/self/task", threads)) wrong += "threads are left\n";
  if (!comes_back_to("/proc/self/fd", files)) wrong += "descriptors are left\n";
  if (waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD) wrong += "children are left\n";
  if (wrong.empty() && point.number > 0 && point.how == Failing::once) {
    wrong = judge(sequence(), true);
    if (!wrong.empty()) wrong = "again, with memory, " + wrong;
  }
  const std::string text = fmt::format("{}\n{}", allocations, wrong);
  (void)!write(pipe, text.data(), text.size());
  if (!wrong.empty()) write_stack_of_failure(pipe);
  _exit(wrong.empty() ? 0 : 1);
}

std::string read_all(int fd) {
  std::string all;
  char part[4096];
  for (;;) {
    const ssize_t got = read(fd, part, sizeof part);
    if (got > 0) all.append(part, static_cast<std::size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR)) return all;
  }
}

Ending run(const Sequence& sequence, Point point) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {.text = "no pipe"};
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    child(sequence, point, ends[1]);
  }
  close(ends[1]);
  Ending ending{.text = read_all(ends[0])};
  close(ends[0]);
  int state = 0;
  if (pid < 0 || waitpid(pid, &state, 0) != pid) return {.text = "no child"};
  ending.right = state == 0;
  std::from_chars(ending.text.data(), ending.text.data() + ending.text.size(), ending.allocations);
  if (WIFSIGNALED(state)) {
    ending.text = fmt::format("killed by SIG{}\n{}", sigabbrev_np(WTERMSIG(state)), ending.text);
  }
  return ending;
}

std::vector<std::uint64_t> points_of(std::uint64_t allocations) {
  const char* wanted = std::getenv("TANDEM_TEST_POINTS");
  std::uint64_t most = 24;
  if (wanted != nullptr && std::string_view(wanted) == "all") most = allocations;
  if (wanted != nullptr && std::atoi(wanted) > 0)
    most = static_cast<std::uint64_t>(std::atoi(wanted));
  most = std::min(most, allocations);
  const auto shift = static_cast<std::uint64_t>(testing::UnitTest::GetInstance()->random_seed());
  std::vector<std::uint64_t> points;
  for (std::uint64_t i = 0; i < most; ++i) {
    const std::uint64_t begin = i * allocations / most, end = (i + 1) * allocations / most;
    points.push_back(1 + begin + shift % (end - begin));
  }
  return points;
}

}  // namespace

void sweep(std::string_view name, const Sequence& sequence) {
  const Ending whole = run(sequence, {});
  ASSERT_TRUE(whole.right) << name << ", with memory: " << whole.text;
  const std::vector<std::uint64_t> points = points_of(whole.allocations);
  int wrong = 0;
  for (Failing how : {Failing::once, Failing::from_here}) {
    for (std::uint64_t number : points) {
      const Point point{number, how};
      const Ending ending = run(sequence, point);
      if (ending.right) continue;
      if (++wrong <= kToldInFull)
        ADD_FAILURE() << name << ", " << point.text() << ": " << ending.text;
    }
  }
  EXPECT_EQ(wrong, 0) << name << ": so many of " << 2 * points.size() << " runs went wrong";
  std::printf("%.*s: %zu of %llu allocations failed, alone and with all later ones\n",
              static_cast<int>(name.size()), name.data(), points.size(),
              static_cast<unsigned long long>(whole.allocations));
}

}  // namespace tandem::testing_fault
