// SPDX-License-Identifier: Apache-2.0
//
// Kernel selection with made-up CPUs: what "auto" takes, what a forced target gives or refuses, and
// that the message says what is missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tile/kernel.h"

namespace tandem::tile {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

bool in_table(std::string_view target) {
  for (const Kernel& kernel : kernel_table()) {
    if (kernel.target == target) return true;
  }
  return false;
}

base::CpuFeatures zen3() {
  base::CpuFeatures cpu;
  cpu.avx2 = cpu.fma = cpu.f16c = true;
  return cpu;
}

base::CpuFeatures zen4() {
  base::CpuFeatures cpu = zen3();
  cpu.avx512f = cpu.avx512bw = cpu.avx512dq = cpu.avx512vl = true;
  return cpu;
}

constexpr DType kTypes[] = {DType::f16, DType::bf16, DType::f32};

void expect_target(DType type, std::string_view target, const base::CpuFeatures& cpu,
                   std::string_view expected) {
  const auto kernel = select_kernel(type, target, cpu);
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  EXPECT_EQ((*kernel)->target, expected);
  EXPECT_EQ((*kernel)->type, type);
}

TEST(SelectKernel, AutoTakesTheBestThatRuns) {
  for (const DType type : kTypes) {
    expect_target(type, "auto", {}, "scalar");
    if (in_table("avx2")) expect_target(type, "auto", zen3(), "avx2");
    if (in_table("avx512")) expect_target(type, "auto", zen4(), "avx512");
    base::CpuFeatures arm;
    arm.neon = true;
    if (in_table("neon")) expect_target(type, "auto", arm, "neon");
  }
}

TEST(SelectKernel, OneMissingFeatureRulesATargetOut) {
  if (!in_table("avx512")) GTEST_SKIP() << "not an x86 build";
  for (bool base::CpuFeatures::*feature :
       {&base::CpuFeatures::avx512f, &base::CpuFeatures::avx512bw, &base::CpuFeatures::avx512dq,
        &base::CpuFeatures::avx512vl}) {
    base::CpuFeatures cpu = zen4();
    cpu.*feature = false;
    expect_target(DType::f16, "auto", cpu, "avx2");
  }
  for (bool base::CpuFeatures::*feature :
       {&base::CpuFeatures::avx2, &base::CpuFeatures::fma, &base::CpuFeatures::f16c}) {
    base::CpuFeatures cpu = zen4();
    cpu.*feature = false;
    expect_target(DType::f16, "auto", cpu, "scalar");
  }
}

TEST(SelectKernel, ForcedTargetIsTaken) {
  for (const DType type : kTypes) {
    expect_target(type, "scalar", zen4(), "scalar");
    if (in_table("avx2")) expect_target(type, "avx2", zen4(), "avx2");
  }
}

TEST(SelectKernel, RefusesWhatTheCpuLacks) {
  if (!in_table("avx512")) GTEST_SKIP() << "not an x86 build";
  const auto kernel = select_kernel(DType::f16, "avx512", zen3());
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(kernel.status().message(),
              AllOf(HasSubstr("'avx512'"), HasSubstr("avx512f, avx512bw"), Not(HasSubstr("f16c"))));
}

TEST(SelectKernel, RefusesUnknownNamesAndListsTheKnown) {
  for (const std::string_view name : {"sse9", "", "AVX2", "avx2 "}) {
    const auto kernel = select_kernel(DType::f16, name, zen4());
    ASSERT_FALSE(kernel.ok()) << name;
    EXPECT_EQ(kernel.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(kernel.status().message(), AllOf(HasSubstr("auto"), HasSubstr("scalar")));
  }
}

TEST(SelectKernel, RefusesTypesWithoutKernel) {
  const auto kernel = select_kernel(DType::s32, "auto", zen4());
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(kernel.status().message(), HasSubstr("s32"));
}

}  // namespace
}  // namespace tandem::tile
