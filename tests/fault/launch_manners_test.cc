// SPDX-License-Identifier: Apache-2.0
//
// launch() and its surroundings: what a caller does with SIGCHLD and with signals, what it finds
// afterwards, and that nothing outlives a launch, however deep and whoever is killed. Each scenario
// runs in a forked process, whose signals are its own.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tandem/launch.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kLimit{60};

/// A process by its number and the moment of its start: numbers are used again.
struct Process {
  int pid = 0;
  std::string started;
  auto operator<=>(const Process&) const = default;
};

/// The fields of /proc/PID/stat behind the name, empty when there is no such process.
std::vector<std::string> stat_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::istringstream rest(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  return {std::istream_iterator<std::string>(rest), {}};
}

Process process(int pid) {
  const auto fields = stat_of(pid);
  return {pid, fields.size() > 19 ? fields[19] : ""};
}

bool runs(const Process& p) {
  const auto fields = stat_of(p.pid);
  return fields.size() > 19 && fields[0] != "Z" && fields[19] == p.started;
}

template <class Condition>
bool comes_true(Condition condition) {
  const auto deadline = steady_clock::now() + kLimit;
  while (!condition() && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  return condition();
}

class LaunchManners : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tandem_launch_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] bool exists(const std::string& name) const {
    return std::filesystem::exists(folder_ + "/" + name);
  }
  /// Ranks that run a script in the folder.
  [[nodiscard]] LaunchSpec shell(int size, const std::string& script) const {
    return {.size = size, .command = {"sh", "-c", "cd " + folder_ + "; " + script}};
  }

  /// In a process of its own; its exit code, or -signal.
  static pid_t start(const std::function<int()>& body) {
    const pid_t pid = fork();
    if (pid == 0) _exit(body());
    return pid;
  }
  static int finish(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  static int run(const std::function<int()>& body) { return finish(start(body)); }
  /// launch() in a process of its own that exits with its exit code.
  static pid_t start_launch(const LaunchSpec& spec) {
    return start([&] {
      auto report = launch(spec);
      return report.ok() ? report->exit_code : 99;
    });
  }

  /// A rank that is a wrapper, with a child that it waits for, a grandchild, and a daemon in a
  /// session of its own. All but the wrapper ignore what can be ignored. Each writes its number.
  [[nodiscard]] LaunchSpec deep(int size) const {
    std::ofstream(folder_ + "/deaf") << "trap '' INT TERM HUP QUIT USR1 USR2\n"
                                        "echo $$ > $1.new; mv $1.new $1.pid\n"
                                        "while :; do sleep 0.1; done\n";
    return shell(size,
                 "r=$TANDEM_RANK; setsid sh deaf daemon$r & (sh deaf grandchild$r & sh deaf "
                 "child$r; true); true");
  }
  /// Waits until all of deep() run.
  std::vector<Process> deep_processes(int size) const {
    std::vector<Process> all;
    for (int r = 0; r < size; ++r) {
      for (const char* who : {"daemon", "grandchild", "child"}) {
        const std::string name = fmt::format("{}{}.pid", who, r);
        EXPECT_TRUE(comes_true([&] { return exists(name); })) << name;
        int pid = 0;
        std::ifstream(folder_ + "/" + name) >> pid;
        all.push_back(process(pid));
        EXPECT_TRUE(runs(all.back())) << name;
      }
    }
    return all;
  }
  static void expect_gone(const std::vector<Process>& all) {
    for (const Process& p : all) {
      EXPECT_TRUE(comes_true([&] { return !runs(p); })) << p.pid << " is left";
      if (runs(p)) kill(p.pid, SIGKILL);
    }
  }

  std::string folder_;
};

void react(int signal, void (*handler)(int), int flags = 0) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

TEST_F(LaunchManners, EndsAreSeenWhateverTheCallerDoesWithSigchld) {
  const std::function<void()> callers[] = {
      [] { react(SIGCHLD, SIG_IGN); },
      [] { react(SIGCHLD, SIG_DFL, SA_NOCLDWAIT); },
      [] {
        react(SIGCHLD, [](int) {
          while (waitpid(-1, nullptr, WNOHANG) > 0) {
          }
        });
      },
      [] {
        std::thread([] {
          for (;;) {
            if (waitpid(-1, nullptr, 0) < 0) std::this_thread::sleep_for(milliseconds(1));
          }
        }).detach();
      },
  };
  const LaunchSpec spec = shell(3, "exit $((TANDEM_RANK * 7))");
  for (const auto& prepare : callers) {
    EXPECT_EQ(run([&] {
                prepare();
                auto report = launch(spec);
                if (!report.ok() || report->exits.size() != 3) return 1;
                std::set<int> codes;
                for (const RankExit& exit : report->exits) codes.insert(exit.code);
                return codes == std::set<int>{0, 7, 14} ? 0 : 2;
              }),
              0);
  }
}

TEST_F(LaunchManners, EndsThatComeAllAtOnceAreSeen) {
  // Stopped at some moment of its start, the launcher hears all that has happened in one go.
  for (int i = 0; i < 40; ++i) {
    const pid_t launcher = start_launch(shell(2, "exit 7"));
    std::this_thread::sleep_for(std::chrono::microseconds(100 * i));
    kill(launcher, SIGSTOP);
    std::this_thread::sleep_for(milliseconds(30));
    kill(launcher, SIGCONT);
    EXPECT_EQ(finish(launcher), 7);
  }
}

std::vector<std::string> descriptors() {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    all.push_back(entry.path().filename());
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST_F(LaunchManners, TheCallerFindsAllAsItWas) {
  EXPECT_EQ(run([&] {
              const pid_t own_child = fork();
              if (own_child == 0) _exit(5);
              react(SIGINT, [](int) {});
              react(SIGUSR1, [](int) {});
              react(SIGHUP, SIG_IGN);
              struct sigaction before[32], after{};
              for (int s = 1; s < 32; ++s) sigaction(s, nullptr, &before[s]);
              const auto open_before = descriptors();
              if (auto report = launch(shell(2, "exit 0")); !report.ok()) return 1;
              for (int s = 1; s < 32; ++s) {
                sigaction(s, nullptr, &after);
                if (after.sa_handler != before[s].sa_handler) return 2;
              }
              if (descriptors() != open_before) return 3;
              int subreaper = 1;
              prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
              if (subreaper != 0) return 4;
              int status = 0;
              if (waitpid(own_child, &status, 0) != own_child || WEXITSTATUS(status) != 5) return 5;
              return waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD ? 0 : 6;
            }),
            0);
}

TEST_F(LaunchManners, SignalsArePassedOnToWholeRanks) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    // The rank waits for a child, and both are told.
    const std::string name = sigabbrev_np(signal);
    const std::string in = fmt::format(
        "trap 'echo got > {0}child$TANDEM_RANK; exit 4' {0}; : > {0}up$TANDEM_RANK; while :; do "
        "sleep 0.05; done",
        name);
    const std::string script =
        fmt::format("trap 'echo got > {0}rank$TANDEM_RANK' {0}; sh -c \"{1}\"; wait; exit 3", name,
                    std::regex_replace(in, std::regex("\\$"), "\\$"));
    const pid_t launcher = start_launch(shell(2, script));
    EXPECT_TRUE(comes_true([&] { return exists(name + "up0") && exists(name + "up1"); }));
    kill(launcher, signal);
    EXPECT_EQ(finish(launcher), 3) << name;
    for (const char* who : {"child0", "child1", "rank0", "rank1"}) {
      EXPECT_TRUE(exists(name + who)) << name << who;
    }
  }
}

TEST_F(LaunchManners, HandlersForUserSignalsStayTheCallers) {
  const pid_t launcher = start([&] {
    static volatile sig_atomic_t own = 0;
    react(SIGUSR1, [](int) { own = 1; });
    auto report = launch(shell(1, ": > up; while [ ! -e go ]; do sleep 0.05; done"));
    return report.ok() && report->exit_code == 0 && own == 1 ? 0 : 1;
  });
  EXPECT_TRUE(comes_true([&] { return exists("up"); }));
  kill(launcher, SIGUSR1);
  std::ofstream(folder_ + "/go") << "";
  EXPECT_EQ(finish(launcher), 0);
}

TEST_F(LaunchManners, NothingOutlivesALauncherThatIsKilled) {
  const pid_t launcher = start_launch(deep(2));
  const auto all = deep_processes(2);
  kill(launcher, SIGKILL);
  EXPECT_EQ(finish(launcher), -SIGKILL);
  expect_gone(all);
}

TEST_F(LaunchManners, NothingOutlivesALauncherWhoseWholeGroupIsKilled) {
  const LaunchSpec spec = deep(1);
  const pid_t launcher = start([&] {
    setpgid(0, 0);
    auto report = launch(spec);
    return report.ok() ? report->exit_code : 99;
  });
  const auto all = deep_processes(1);
  kill(-launcher, SIGKILL);
  EXPECT_EQ(finish(launcher), -SIGKILL);
  expect_gone(all);
}

TEST_F(LaunchManners, NothingOutlivesAFailure) {
  LaunchSpec spec = deep(2);
  spec.command.back().insert(spec.command.back().find("r=$"),
                             "if [ $TANDEM_RANK = 1 ]; then while [ ! -e go ]; do sleep 0.05; "
                             "done; exit 9; fi; ");
  const pid_t launcher = start_launch(spec);
  const auto all = deep_processes(1);
  std::ofstream(folder_ + "/go") << "";
  EXPECT_EQ(finish(launcher), 9);
  for (const Process& p : all) EXPECT_FALSE(runs(p)) << "when launch() returns they are gone";
  expect_gone(all);
}

TEST_F(LaunchManners, WhatRanksLeaveBehindIsEndedWithTheJob) {
  (void)deep(1);  // for its script
  const LaunchSpec leaver = shell(1,
                                  "setsid sh deaf daemon0 & sh deaf grandchild0 & sh deaf child0 & "
                                  "while [ ! -e go ]; do sleep 0.05; done; exit 0");
  const pid_t launcher = start_launch(leaver);
  const auto all = deep_processes(1);
  std::ofstream(folder_ + "/go") << "";
  EXPECT_EQ(finish(launcher), 0);
  for (const Process& p : all) EXPECT_FALSE(runs(p));
  expect_gone(all);
}

TEST_F(LaunchManners, RanksThatDoNotEndWhenInterruptedAreEnded) {
  for (int signal : {SIGINT, SIGTERM}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      std::filesystem::remove(entry.path());
    }
    const pid_t launcher = start_launch(deep(1));
    const auto all = deep_processes(1);
    kill(launcher, signal);
    EXPECT_GT(finish(launcher), 128);
    for (const Process& p : all) EXPECT_FALSE(runs(p));
    expect_gone(all);
  }
}

TEST_F(LaunchManners, RanksThatGoOnWhenInterruptedAreTerminated) {
  const pid_t launcher =
      start_launch(shell(1, "trap '' INT; : > up; while :; do sleep 0.05; done"));
  EXPECT_TRUE(comes_true([&] { return exists("up"); }));
  kill(launcher, SIGINT);
  EXPECT_EQ(finish(launcher), 128 + SIGTERM);
}

TEST_F(LaunchManners, TheSecondInterruptKillsAtOnce) {
  // Were it not at once, SIGTERM would come first.
  const pid_t launcher = start_launch(
      shell(1,
            "trap ': > told' INT; trap ': > terminated' TERM; : > up; while :; do sleep 0.05; "
            "done"));
  EXPECT_TRUE(comes_true([&] { return exists("up"); }));
  kill(launcher, SIGINT);
  EXPECT_TRUE(comes_true([&] { return exists("told"); }));
  std::this_thread::sleep_for(milliseconds(600));
  kill(launcher, SIGINT);
  EXPECT_EQ(finish(launcher), 128 + SIGKILL);
  EXPECT_FALSE(exists("terminated"));
}

/// The child of a process that is named tandem-reaper.
int reaper_of(int launcher) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    const auto fields = stat_of(pid);
    std::ifstream file(entry.path() / "comm");
    std::string name;
    file >> name;
    if (name == "tandem-reaper" && fields.size() > 1 && fields[1] == std::to_string(launcher)) {
      return pid;
    }
  }
  return 0;
}

TEST_F(LaunchManners, WithoutItsReaperTheEndOfARankIsCalledUnknown) {
  const LaunchSpec spec = shell(1, "sh -c ': > up; while :; do sleep 0.1; done'; true");
  const pid_t launcher = start([&] {
    auto report = launch(spec);
    const bool honest = report.ok() && report->exit_code == 128 + SIGKILL &&
                        report->summary.find("its end was not seen") != std::string::npos;
    return honest ? 0 : 1;
  });
  EXPECT_TRUE(comes_true([&] { return exists("up"); }));
  const int reaper = reaper_of(launcher);
  ASSERT_GT(reaper, 0);
  std::ifstream list(fmt::format("/proc/{0}/task/{0}/children", reaper));
  int rank = 0, child = 0;
  list >> rank;
  std::ifstream(fmt::format("/proc/{0}/task/{0}/children", rank)) >> child;
  const std::vector<Process> all = {process(rank), process(child)};
  EXPECT_TRUE(runs(all[0]) && runs(all[1]));
  kill(reaper, SIGKILL);
  EXPECT_EQ(finish(launcher), 0);
  expect_gone(all);
}

TEST_F(LaunchManners, OneThreadAtATime) {
  const pid_t launcher = start([&] {
    std::thread other(
        [&] { (void)launch(shell(1, ": > up; while [ ! -e go ]; do sleep 0.05; done")); });
    if (!comes_true([&] { return exists("up"); })) return 1;
    auto second = launch(shell(1, "true"));
    std::ofstream(folder_ + "/go") << "";
    other.join();
    if (second.ok() || second.status().code() != StatusCode::kUnsupported) return 2;
    return launch(shell(1, "true")).ok() ? 0 : 3;
  });
  EXPECT_EQ(finish(launcher), 0);
}

}  // namespace
}  // namespace tandem
