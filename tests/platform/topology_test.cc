// SPDX-License-Identifier: Apache-2.0
//
// What the machine says of itself is consistent, and binding binds.
#include "platform/topology.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#include <gmock/gmock.h>

#include "platform/cgroup.h"

namespace tandem::platform {
namespace {

TEST(Topology, IsConsistent) {
  const Topology& machine = topology();
  EXPECT_FALSE(machine.cpu.empty());
  EXPECT_GE(machine.hardware_threads, 1);
  EXPECT_GE(machine.cores.size(), 1u);
  EXPECT_LE(machine.cores.size(), static_cast<std::size_t>(machine.hardware_threads));
  EXPECT_GE(machine.nodes.size(), 1u);
  EXPECT_GE(cache_sizes().l1d, 8 << 10);
  EXPECT_GE(cache_sizes().l2, cache_sizes().l1d);
  EXPECT_GE(cpu_quota(), 0);
}

TEST(CpuFeatures, AgreeWithTheKernel) {
  std::ifstream file("/proc/cpuinfo");
  std::string line, flags;
  while (std::getline(file, line)) {
    if (line.starts_with("flags") || line.starts_with("Features")) {
      flags = line + " ";
      break;
    }
  }
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo lists no flags";
  const base::CpuFeatures cpu = cpu_features();
  const auto listed = [&](const char* flag) {
    return flags.find(std::string(" ") + flag + " ") != std::string::npos;
  };
#if defined(__x86_64__)
  EXPECT_EQ(cpu.avx2, listed("avx2"));
  EXPECT_EQ(cpu.fma, listed("fma"));
  EXPECT_EQ(cpu.f16c, listed("f16c"));
  EXPECT_EQ(cpu.avx512f, listed("avx512f"));
  EXPECT_EQ(cpu.avx512bw, listed("avx512bw"));
  EXPECT_EQ(cpu.avx512dq, listed("avx512dq"));
  EXPECT_EQ(cpu.avx512vl, listed("avx512vl"));
  EXPECT_EQ(cpu.avx512_vnni, listed("avx512_vnni"));
  EXPECT_EQ(cpu.avx512_bf16, listed("avx512_bf16"));
  EXPECT_EQ(cpu.avx_vnni, listed("avx_vnni"));
#elif defined(__aarch64__)
  EXPECT_EQ(cpu.neon, listed("asimd"));
  EXPECT_EQ(cpu.dotprod, listed("asimddp"));
  EXPECT_EQ(cpu.i8mm, listed("i8mm"));
#endif
}

TEST(FittingThreads, CoresAndQuotaAreShared) {
  EXPECT_EQ(fitting_threads(8, 1, 0, 1), 8);
  EXPECT_EQ(fitting_threads(8, 1, 2.0, 1), 2);
  EXPECT_EQ(fitting_threads(8, 2, 0, 2), 4);
  EXPECT_EQ(fitting_threads(8, 1, 100, 1), 8);
  // A fraction is left over: a thread for it would stop all whenever the quota is spent.
  EXPECT_EQ(fitting_threads(8, 1, 1.5, 1), 1);
  EXPECT_EQ(fitting_threads(8, 1, 3.9, 1), 3);
  EXPECT_EQ(fitting_threads(8, 4, 4.0, 4), 1);
  EXPECT_EQ(fitting_threads(8, 2, 5.0, 2), 2);
  // Ranks that are bound to cores of their own share the quota all the same.
  EXPECT_EQ(fitting_threads(4, 1, 4.0, 2), 2);
  // Never none.
  EXPECT_EQ(fitting_threads(8, 1, 0.5, 1), 1);
  EXPECT_EQ(fitting_threads(2, 64, 0, 64), 1);
  EXPECT_EQ(fitting_threads(0, 0, 0, 0), 1);
}

TEST(CpuSet, HoldsWhatIsPutIn) {
  CpuSet set;
  EXPECT_EQ(set.count(), 0);
  EXPECT_NE(set.bind(pthread_self()), 0);
  for (int cpu : {-1, 0, 63, 64, 8192, CpuSet::kMost - 1, CpuSet::kMost}) set.insert(cpu);
  EXPECT_EQ(set.count(), 5);
  EXPECT_TRUE(set.contains(8192));
  EXPECT_FALSE(set.contains(-1) || set.contains(CpuSet::kMost) || set.contains(1));
  set.erase(8192);
  set.erase(-1);
  EXPECT_EQ(set.count(), 4);
}

TEST(Affinity, CoresAreCountedOnce) {
  EXPECT_GE(allowed_cores(), 1);
  EXPECT_LE(allowed_cores(), static_cast<int>(allowed_cpus().size()));
  std::thread([] {
    const int first[] = {allowed_cpus().front()};
    ASSERT_TRUE(bind_this_thread(first).ok());
    EXPECT_EQ(allowed_cores(), 1);
  }).join();
}

TEST(Affinity, BindingRestrictsTheThread) {
  const std::vector<int> all = allowed_cpus();
  ASSERT_FALSE(all.empty());
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  std::thread([&] {
    const int last[] = {all.back()};
    ASSERT_TRUE(bind_this_thread(last).ok());
    EXPECT_THAT(allowed_cpus(), ::testing::ElementsAre(all.back()));
  }).join();
  EXPECT_EQ(allowed_cpus(), all);
  const int nowhere[] = {16000};
  const Status status = bind_this_thread(nowhere);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("16000"));
  EXPECT_FALSE(bind_this_thread({}).ok());
}

}  // namespace
}  // namespace tandem::platform
