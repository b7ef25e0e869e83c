// SPDX-License-Identifier: Apache-2.0
//
// Limits of control groups, read from copies of the files that kernels of both versions show.
#include "platform/cgroup.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <unistd.h>

namespace tandem::platform {
namespace {

/// A folder that stands for / of some machine.
class FakeMachine : public ::testing::Test {
 protected:
  FakeMachine() {
    std::string name = (std::filesystem::temp_directory_path() / "tandem-cgroup-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~FakeMachine() override { std::filesystem::remove_all(root_); }

  void file(const std::string& path, const std::string& text) {
    const std::filesystem::path at = root_ + path;
    std::filesystem::create_directories(at.parent_path());
    std::ofstream(at) << text << '\n';
  }
  /// One line of mountinfo: `type` "cgroup2", or "cgroup" with its controllers as options.
  static std::string mount(const std::string& mounted, const std::string& point,
                           const std::string& type, const std::string& options) {
    return "35 24 0:30 " + mounted + " " + point + " rw,nosuid shared:9 - " + type + " none rw," +
           options + "\n";
  }
  void machine(const std::string& mounts, const std::string& groups) {
    file("/proc/self/mountinfo", "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + mounts);
    file("/proc/self/cgroup", groups);
  }

  std::string root_;
};

TEST_F(FakeMachine, WithoutControlGroupsThereIsNoLimit) {
  EXPECT_EQ(cpu_quota(root_), 0);
  EXPECT_TRUE(memory_groups(root_).empty());
  machine("", "");
  EXPECT_EQ(cpu_quota(root_), 0);
  EXPECT_TRUE(memory_groups(root_).empty());
}

TEST_F(FakeMachine, Version2) {
  machine(mount("/", "/sys/fs/cgroup", "cgroup2", "nsdelegate"), "0::/job");
  file("/sys/fs/cgroup/job/cpu.max", "150000 100000");
  file("/sys/fs/cgroup/job/memory.max", "1073741824");
  file("/sys/fs/cgroup/job/memory.current", "500000000");
  file("/sys/fs/cgroup/job/memory.stat", "anon 1000\ninactive_file 100000000\nshmem 0");
  EXPECT_DOUBLE_EQ(cpu_quota(root_), 1.5);
  const auto groups = memory_groups(root_);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].path, "/sys/fs/cgroup/job");
  EXPECT_EQ(groups[0].limit, 1073741824);
  EXPECT_EQ(groups[0].used, 400000000);
}

TEST_F(FakeMachine, Version2WithoutLimits) {
  machine(mount("/", "/sys/fs/cgroup", "cgroup2", "nsdelegate"), "0::/job");
  file("/sys/fs/cgroup/job/cpu.max", "max 100000");
  file("/sys/fs/cgroup/job/memory.max", "max");
  EXPECT_EQ(cpu_quota(root_), 0);
  EXPECT_TRUE(memory_groups(root_).empty());
}

TEST_F(FakeMachine, OfNestedGroupsTheTightestCounts) {
  machine(mount("/", "/sys/fs/cgroup", "cgroup2", "nsdelegate"), "0::/a/b/c");
  file("/sys/fs/cgroup/a/cpu.max", "200000 100000");
  file("/sys/fs/cgroup/a/b/cpu.max", "800000 100000");
  file("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000");
  file("/sys/fs/cgroup/a/memory.max", "1000");
  file("/sys/fs/cgroup/a/b/c/memory.max", "2000");
  EXPECT_DOUBLE_EQ(cpu_quota(root_), 2.0);
  const auto groups = memory_groups(root_);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].limit, 2000);  // innermost first
  EXPECT_EQ(groups[1].limit, 1000);
}

TEST_F(FakeMachine, Version1) {
  machine(mount("/", "/sys/fs/cgroup/cpu,cpuacct", "cgroup", "cpu,cpuacct") +
              mount("/", "/sys/fs/cgroup/memory", "cgroup", "memory"),
          "5:cpu,cpuacct:/slurm/job\n4:memory:/slurm/job\n1:name=systemd:/");
  file("/sys/fs/cgroup/cpu,cpuacct/slurm/job/cpu.cfs_quota_us", "50000");
  file("/sys/fs/cgroup/cpu,cpuacct/slurm/job/cpu.cfs_period_us", "100000");
  file("/sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_quota_us", "-1");
  file("/sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_period_us", "100000");
  file("/sys/fs/cgroup/memory/slurm/job/memory.limit_in_bytes", "9223372036854771712");
  file("/sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "4096000");
  file("/sys/fs/cgroup/memory/slurm/memory.usage_in_bytes", "1000");
  file("/sys/fs/cgroup/memory/slurm/memory.stat", "inactive_file 1\ntotal_inactive_file 5000");
  EXPECT_DOUBLE_EQ(cpu_quota(root_), 0.5);
  const auto groups = memory_groups(root_);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].limit, 4096000);
  EXPECT_EQ(groups[0].used, 0) << "more cache than use must not become room";
}

TEST_F(FakeMachine, BothVersionsAtOnce) {
  machine(mount("/", "/sys/fs/cgroup/unified", "cgroup2", "nsdelegate") +
              mount("/", "/sys/fs/cgroup/cpu", "cgroup", "cpu") +
              mount("/", "/sys/fs/cgroup/memory", "cgroup", "memory"),
          "4:memory:/box\n1:cpu:/box\n0::/box");
  file("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "300000");
  file("/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000");
  file("/sys/fs/cgroup/unified/box/memory.max", "3000");
  EXPECT_DOUBLE_EQ(cpu_quota(root_), 3.0);
  ASSERT_EQ(memory_groups(root_).size(), 1u);
  EXPECT_EQ(memory_groups(root_)[0].path, "/sys/fs/cgroup/unified/box");
}

TEST_F(FakeMachine, AContainerSeesItsPartOnly) {
  // Without a cgroup namespace /proc names groups as the host does, but only one is mounted.
  machine(mount("/docker/abc", "/sys/fs/cgroup", "cgroup2", "nsdelegate"), "0::/docker/abc/inner");
  file("/sys/fs/cgroup/cpu.max", "200000 100000");
  file("/sys/fs/cgroup/inner/cpu.max", "400000 100000");
  EXPECT_DOUBLE_EQ(cpu_quota(root_), 2.0);
  machine(mount("/docker/abc", "/sys/fs/cgroup", "cgroup2", "nsdelegate"), "0::/docker/abcdef");
  EXPECT_DOUBLE_EQ(cpu_quota(root_), 2.0) << "the name of another group begins alike";
  machine(mount("/", "/sys/fs/cgroup", "cgroup2", "nsdelegate"), "0::/../other");
  EXPECT_DOUBLE_EQ(cpu_quota(root_), 2.0) << "moved out of the namespace";
}

TEST_F(FakeMachine, NamesWithBlanks) {
  machine(mount("/", "/mnt/c\\040g", "cgroup2", "nsdelegate"), "0::/my job");
  file("/mnt/c g/my job/cpu.max", "100000 100000");
  EXPECT_DOUBLE_EQ(cpu_quota(root_), 1.0);
}

}  // namespace
}  // namespace tandem::platform
