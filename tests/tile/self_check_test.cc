// SPDX-License-Identifier: Apache-2.0
//
// The self-check finds right kernels right and wrong ones wrong, wherever they are wrong; selection
// passes over those that are not trusted.
#include "tile/self_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/topology.h"

namespace tandem::tile {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<Kernel> runnable_kernels() {
  std::vector<Kernel> kernels;
  for (const Kernel& kernel : kernel_table()) {
    if (kernel.runs_on(platform::cpu_features(), nullptr)) kernels.push_back(kernel);
  }
  return kernels;
}

class SelfCheckTest : public ::testing::TestWithParam<Kernel> {
 protected:
  /// A copy that `spoil` has made wrong. Its functions reach the right ones through `right`.
  template <class Spoil>
  static void expect_found(const Spoil& spoil) {
    right = GetParam();
    Kernel wrong = right;
    spoil(wrong);
    const Status found = self_check(wrong);
    EXPECT_EQ(found.code(), StatusCode::kUnsupported);
    EXPECT_THAT(found.message(), AllOf(HasSubstr(std::string(right.target)), HasSubstr("element"),
                                       HasSubstr("and the scalar kernel")));
  }
  static inline Kernel right;
};

TEST_P(SelfCheckTest, PassesWhatIsRight) {
  const Status found = self_check(GetParam());
  EXPECT_TRUE(found.ok()) << found.message();
}

TEST_P(SelfCheckTest, FindsASumThatIsOneBitOff) {
  expect_found([](Kernel& k) {
    k.multiply = [](std::int64_t kc, const std::byte* a, const std::byte* b, std::byte* tile,
                    int rows, bool first, Ahead ahead) {
      right.multiply(kc, a, b, tile, rows, first, ahead);
      if (rows == right.mr && !first) tile[(right.mr - 1) * right.nr * 4] ^= std::byte{1};
    };
  });
}

TEST_P(SelfCheckTest, FindsAMissingStep) {
  expect_found([](Kernel& k) {
    k.pack_b = [](const std::byte* b, std::int64_t stride, BLayout layout, std::int64_t kc,
                  int cols, std::byte* panel) {
      right.pack_b(b, stride, layout, kc, cols, panel);
      // The last group.
      const std::int64_t whole = (kc - 1) / right.k_group * right.k_group;
      const auto step = static_cast<std::size_t>(right.nr) * right.b_bytes;
      std::memset(panel + static_cast<std::size_t>(whole) * step, 0,
                  step * static_cast<std::size_t>(right.k_group));
    };
  });
}

TEST_P(SelfCheckTest, FindsAWrongConversion) {
  expect_found([](Kernel& k) {
    if (k.accumulator == DType::s32) {
      k.dequantise = [](const std::byte* tile, int rows, int cols, const Dequantisation& factors,
                        const float* row_scale, DType type, std::byte* to, std::int64_t pitch) {
        right.dequantise(tile, rows, cols, factors, row_scale, type, to, pitch);
        if (type == DType::bf16) to[0] ^= std::byte{1};
      };
    } else {
      k.store = [](const std::byte* tile, int rows, int cols, DType type, std::byte* to,
                   std::int64_t pitch) {
        right.store(tile, rows, cols, type, to, pitch);
        if (type == DType::f16) to[(rows - 1) * pitch] ^= std::byte{1};
      };
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Table, SelfCheckTest, ::testing::ValuesIn(runnable_kernels()),
                         [](const auto& param) {
                           return std::string(param.param.target) + "_" +
                                  std::string(name(param.param.type));
                         });

/// Finds everything but the scalar kernels wrong.
Status distrust(const Kernel& kernel) {
  if (kernel.target == "scalar") return {};
  return {StatusCode::kUnsupported, "these are the values"};
}

TEST(SelectKernel, PassesOverWhatIsNotTrusted) {
  const auto cpu = platform::cpu_features();
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::s8}) {
    EXPECT_EQ(select_kernel(type, "auto", cpu, distrust).value()->target, "scalar");
    const std::string best(select_kernel(type, "auto", cpu).value()->target);
    if (best == "scalar") continue;
    const auto forced = select_kernel(type, best, cpu, distrust);
    EXPECT_EQ(forced.status().code(), StatusCode::kUnsupported);
    EXPECT_THAT(forced.status().message(), HasSubstr("these are the values"));
  }
}

TEST(SelfCheck, IsMadeOnce) {
  for (const Kernel& kernel : kernel_table()) {
    if (!kernel.runs_on(platform::cpu_features(), nullptr)) continue;
    EXPECT_TRUE(self_check_once(kernel).ok());
    EXPECT_TRUE(self_check_once(kernel).ok());
  }
}

}  // namespace
}  // namespace tandem::tile
