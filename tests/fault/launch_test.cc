// SPDX-License-Identifier: Apache-2.0
//
// launch(): what ranks inherit, how their ends are reported, and that nobody survives. What the
// caller keeps, and what becomes of grandchildren: launch_manners_test.cc.
#include "tandem/launch.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include "platform/topology.h"
#include "tandem/world.h"

namespace tandem {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

LaunchSpec shell(int size, std::string script) {
  return {.size = size, .command = {"sh", "-c", std::move(script)}};
}

LaunchReport report_of(const LaunchSpec& spec) {
  auto report = launch(spec);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? *report : LaunchReport{};
}

/// A folder of its own for each test, gone at the end.
class LaunchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tandem_launch_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(std::string_view name) const { return folder_ + "/" + std::string(name); }
  std::string text(std::string_view name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
};

TEST_F(LaunchTest, RanksGetTheirNumbersAndVariables) {
  LaunchSpec spec = shell(
      3, "echo $TANDEM_RANK $TANDEM_SIZE $TANDEM_FD $COLOUR $0 > " + folder_ + "/$TANDEM_RANK");
  spec.command.push_back("argument");
  spec.environment = {"COLOUR=red", "COLOUR=blue"};
  const LaunchReport report = report_of(spec);
  EXPECT_EQ(report.exit_code, 0);
  EXPECT_EQ(report.summary, "");
  EXPECT_EQ(report.exits.size(), 3u);
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(text(std::to_string(r)), std::to_string(r) + " 3 3 blue argument\n");
  }
}

TEST_F(LaunchTest, RanksInheritOnlyTheirDescriptor) {
  int stray[2];
  ASSERT_EQ(pipe(stray), 0);
  const LaunchReport report = report_of(shell(1, "exec ls /proc/self/fd > " + path("fds")));
  close(stray[0]);
  close(stray[1]);
  EXPECT_EQ(report.exit_code, 0);
  EXPECT_EQ(text("fds"), "0\n1\n2\n3\n4\n") << "4 is the folder that ls reads";
}

TEST_F(LaunchTest, TheFirstFailureCounts) {
  const LaunchReport report = report_of(
      shell(3, "case $TANDEM_RANK in 1) exit 7;; 2) sleep 0.5; exit 5;; *) exit 0;; esac"));
  EXPECT_EQ(report.exit_code, 7);
  EXPECT_EQ(report.summary, "rank 1 exited with code 7\nrank 2 exited with code 5\n");
  ASSERT_EQ(report.exits.size(), 3u);
  EXPECT_EQ(report.exits.back().rank, 2);
}

TEST_F(LaunchTest, OthersAreTerminatedAfterTheGrace) {
  const auto start = steady_clock::now();
  const LaunchReport report =
      report_of(shell(2, "[ $TANDEM_RANK = 0 ] && kill -9 $$; exec sleep 60"));
  EXPECT_EQ(report.exit_code, 128 + SIGKILL);
  EXPECT_EQ(report.summary,
            "rank 0 was killed by signal 9 (SIGKILL)\nrank 1 was killed by signal 15 (SIGTERM)\n");
  EXPECT_GE(steady_clock::now() - start, seconds(2));
  EXPECT_LT(steady_clock::now() - start, seconds(30));
}

TEST_F(LaunchTest, WhoIgnoresTermIsKilled) {
  const LaunchReport report = report_of(
      shell(2, "[ $TANDEM_RANK = 0 ] && exit 3; trap '' TERM; while :; do sleep 0.2; done"));
  EXPECT_EQ(report.exit_code, 3);
  EXPECT_THAT(report.summary, HasSubstr("rank 1 was killed by signal 9 (SIGKILL)\n"));
}

TEST_F(LaunchTest, SpecsAreChecked) {
  for (int size : {-1, 0, 65}) {
    auto report = launch(shell(size, ":"));
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(report.status().message(), HasSubstr(std::to_string(size)));
  }
  EXPECT_EQ(launch({.size = 1}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(launch({.size = 1, .command = {""}}).status().code(), StatusCode::kInvalidArgument);
  LaunchSpec spec = shell(1, ":");
  spec.environment = {"NOVALUE"};
  EXPECT_THAT(launch(spec).status().message(), HasSubstr("'NOVALUE'"));
}

TEST_F(LaunchTest, ProgramsThatCannotStartAreNamed) {
  auto missing = launch({.size = 3, .command = {"no-such-program-anywhere"}});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(missing.status().message(), HasSubstr("'no-such-program-anywhere'"));
  EXPECT_THAT(missing.status().message(), HasSubstr("No such file"));
  std::ofstream(path("plain")) << "not executable";
  auto plain = launch({.size = 1, .command = {path("plain")}});
  ASSERT_FALSE(plain.ok());
  EXPECT_EQ(plain.status().code(), StatusCode::kIo);
  EXPECT_THAT(plain.status().message(), HasSubstr("Permission denied"));
}

TEST_F(LaunchTest, CoresAreSharedOut) {
  LaunchSpec spec =
      shell(2, "grep Cpus_allowed_list /proc/self/status > " + folder_ + "/$TANDEM_RANK");
  for (Bind bind : {Bind::core, Bind::numa}) {
    spec.bind = bind;
    EXPECT_EQ(report_of(spec).exit_code, 0);
    EXPECT_THAT(text("0"), HasSubstr("Cpus_allowed_list"));
    const bool apart = bind == Bind::core
                           ? platform::topology().cores.size() > 1 &&
                                 platform::allowed_cpus().size() ==
                                     static_cast<std::size_t>(platform::topology().hardware_threads)
                           : platform::topology().nodes.size() > 1;
    if (apart) {
      EXPECT_NE(text("0"), text("1"));
    }
  }
}

TEST_F(LaunchTest, RanksAreBoundToTheDevicesNamed) {
  const Devices there = devices();
  ASSERT_GE(there.count, 1);
  const int last = there.count - 1;
  LaunchSpec spec =
      shell(1, "grep Cpus_allowed_list /proc/self/status > " + folder_ + "/$TANDEM_RANK");
  spec.devices = {last};
  EXPECT_EQ(report_of(spec).exit_code, 0);
  const std::string at_last = text("0");
  spec.devices = {0};
  EXPECT_EQ(report_of(spec).exit_code, 0);
  if (last > 0) {
    EXPECT_NE(text("0"), at_last);
    spec = shell(2, "grep Cpus_allowed_list /proc/self/status > " + folder_ + "/$TANDEM_RANK");
    spec.devices = {last, 0};
    EXPECT_EQ(report_of(spec).exit_code, 0);
    EXPECT_EQ(text("0"), at_last);
    EXPECT_NE(text("1"), at_last);
  }
}

TEST_F(LaunchTest, DevicesAreChecked) {
  const int count = devices().count;
  const auto message = [](const std::vector<int>& list) { return check_devices(list).message(); };
  EXPECT_TRUE(check_devices({count - 1}).ok());
  EXPECT_THAT(message({}), HasSubstr("no device"));
  EXPECT_THAT(message({count}), HasSubstr("device " + std::to_string(count) + " does not exist"));
  EXPECT_THAT(message({-1}), HasSubstr("device -1"));
  EXPECT_THAT(message(std::vector<int>(static_cast<std::size_t>(count) + 1)),
              HasSubstr("name fewer"));
  if (count > 1) {
    EXPECT_THAT(message({1, 1}), HasSubstr("named twice"));
  }
  LaunchSpec spec = shell(2, "true");
  spec.devices = {0};
  EXPECT_THAT(launch(spec).status().message(), HasSubstr("2 ranks"));
}

}  // namespace
}  // namespace tandem
