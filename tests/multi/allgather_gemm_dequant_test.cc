// SPDX-License-Identifier: Apache-2.0
//
// The s8 operator on several ranks, bit for bit against the integer oracle: random shapes, full
// range data, every output and workspace, row scales given or made on the way, both transfers.
#include <cmath>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/multi/problem.h"
#include "tests/multi/ranks.h"

namespace tandem::testing_ranks {
namespace {

using testing::HasSubstr;

struct Case {
  RanksAs as = RanksAs::threads;
  Shape shape;  // a_type is that of the rows as given: s8, or a float type to be quantised
  ActivationKind activations = ActivationKind::s8;
  StreamOptions options;
  bool saturate = false;
  bool with_bias = true;
  float scale_size = 1e-4F;
  std::string kernel = "auto";
};

/// Inputs and the expected result of a case, made before the ranks start.
struct Problem8 {
  explicit Problem8(const Case& c)
      : given(c.shape.a_type, c.shape.m(), c.shape.k),
        a(DType::s8, c.shape.m(), c.shape.k),
        b(DType::s8, kn(c) ? c.shape.k : c.shape.n, kn(c) ? c.shape.n : c.shape.k, 3),
        expected(c.shape.c_type, c.shape.m(), c.shape.n),
        accumulators(DType::s32, c.shape.m(), c.shape.n) {
    std::mt19937_64 random(c.shape.seed);
    std::uniform_real_distribution<float> real(0.1F, 1.0F);
    fill_random(given.view(), c.shape.seed);
    fill_random(b.view(), c.shape.b_seed);
    for (std::int64_t j = 0; j < c.shape.n; ++j) {
      bias.push_back(static_cast<std::int32_t>(random() % 131073) - 65536);
      scale.push_back(real(random) * c.scale_size);
      requantise.push_back(real(random) * 3);
    }
    if (!c.with_bias) bias.clear();
    if (c.activations == ActivationKind::s8_row_scaled) {
      for (std::int64_t i = 0; i < c.shape.m(); ++i) row_scale.push_back(real(random));
    }
    if (c.activations == ActivationKind::quantised) {
      row_scale.resize(static_cast<std::size_t>(c.shape.m()));
      EXPECT_TRUE(reference_quantise(given.view(), a.view(), row_scale).ok());
    } else {
      fill_random(a.view(), c.shape.seed);
    }
    dequantisation = {.scale = scale, .requantise = requantise, .saturate = c.saturate};
    const DequantReference reference{a.view(), b.view(),       c.shape.layout,
                                     bias,     dequantisation, row_scale};
    EXPECT_TRUE(reference_gemm_dequant(reference, expected.view()).ok());
    EXPECT_TRUE(reference_gemm_dequant(reference, accumulators.view()).ok());
  }
  static bool kn(const Case& c) { return c.shape.layout == BLayout::kn; }

  Buffer given, a, b, expected, accumulators;
  std::vector<std::int32_t> bias;
  std::vector<float> scale, requantise, row_scale;
  Dequantisation dequantisation;
};

void expect_equal(Buffer& got, Buffer& expected) {
  auto comparison = compare(got.view(), expected.view());
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  EXPECT_TRUE(comparison->equal()) << comparison->text();
  EXPECT_TRUE(got.gaps_intact());
}

void check(const Case& c) {
  Problem8 p(c);
  StreamOptions options = c.options;
  options.max_rows =
      std::max<std::int64_t>(1, *std::max_element(c.shape.rows.begin(), c.shape.rows.end()));
  run_ranks(c.as, static_cast<int>(c.shape.rows.size()), [&](const World& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    auto weights = PackedWeights::pack(
        p.b.view(), {.layout = c.shape.layout, .kernel = c.kernel, .bias = p.bias});
    ASSERT_TRUE(weights.ok()) << weights.status().message();
    auto op =
        AllGatherGemmDequant::create(world, *weights, p.dequantisation, options, c.activations);
    ASSERT_TRUE(op.ok()) << op.status().message();

    const std::int64_t row0 =
        std::accumulate(c.shape.rows.begin(), c.shape.rows.begin() + world.rank(), std::int64_t{0});
    const std::int64_t own = c.shape.rows[rank];
    const Matrix all = p.given.view();
    ConstMatrix a{all.row(row0), all.type, own, all.cols, all.stride};
    std::span<const float> row_scale;
    if (c.activations == ActivationKind::s8_row_scaled) {
      row_scale = std::span<const float>(p.row_scale)
                      .subspan(static_cast<std::size_t>(row0), static_cast<std::size_t>(own));
    }
    for (int call = 0; call < 3; ++call) {
      if (options.workspace == Workspace::direct) {
        auto input = op->acquire_input(own);
        ASSERT_TRUE(input.ok()) << input.status().message();
        for (std::int64_t i = 0; i < own; ++i) {
          std::memcpy(input->row(i), all.row(row0 + i), static_cast<std::size_t>(all.cols));
        }
        a = *input;
      }
      Buffer result(c.shape.c_type, c.shape.m(), c.shape.n, 5),
          sums(DType::s32, c.shape.m(), c.shape.n, 1), gathered(DType::s8, c.shape.m(), c.shape.k);
      AllGatherGemmDequantCall arguments{
          .a = a, .c = result.view(), .row_scale = row_scale, .rows = c.shape.rows};
      if (call == 1) {
        arguments.accumulators = sums.view();
        arguments.gathered_a = gathered.view();
      }
      const Status status = op->run(arguments);
      ASSERT_TRUE(status.ok()) << status.message();
      expect_equal(result, p.expected);
      if (call == 1) {
        expect_equal(sums, p.accumulators);
        expect_equal(gathered, p.a);
      }
    }
  });
}

TEST(AllGatherGemmDequant, RandomProblemsEqualTheOracleBitForBit) {
  std::mt19937_64 random(4);
  const auto pick = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  const DType outputs[] = {DType::f16, DType::bf16, DType::f32, DType::s32, DType::s8};
  const Workspace workspaces[] = {Workspace::full, Workspace::staged, Workspace::direct};
  const DType floats[] = {DType::f32, DType::f16, DType::bf16};
  for (int round = 0; round < 120; ++round) {
    Case c;
    c.as = round % 4 == 0 ? RanksAs::processes : RanksAs::threads;
    for (std::int64_t r = 0, ranks = 1 + pick(8); r < ranks; ++r) {
      c.shape.rows.push_back(pick(5) == 0 ? 0 : pick(pick(2) == 0 ? 12 : 150));
    }
    c.shape.k = 1 + pick(pick(2) == 0 ? 40 : 900);
    c.shape.n = 1 + pick(120);
    c.shape.c_type = outputs[pick(5)];
    c.shape.layout = pick(2) == 0 ? BLayout::kn : BLayout::nk;
    c.shape.a_type = DType::s8;
    c.shape.seed = random();
    c.activations = static_cast<ActivationKind>(pick(3));
    c.options.workspace = workspaces[pick(3)];
    c.options.stage_rows = 1 + pick(60);
    c.options.stages = 1 + static_cast<int>(pick(3));
    c.options.compute_threads = 1 + static_cast<int>(pick(3));
    c.options.comm_threads = 1 + static_cast<int>(pick(3));
    c.saturate = pick(2) == 0;
    c.with_bias = pick(3) != 0;
    if (c.options.workspace != Workspace::direct) {
      if (pick(2) == 0) c.options.transfer = Transfer::push;
    } else if (c.activations == ActivationKind::quantised) {
      c.activations = ActivationKind::s8_row_scaled;
    }
    if (c.activations == ActivationKind::quantised) c.shape.a_type = floats[pick(3)];
    std::string rows;
    for (std::int64_t r : c.shape.rows) rows += std::to_string(r) + " ";
    check(c);
    // Traces are a thread's own: said once more for thread ranks.
    if (testing::Test::HasFailure()) {
      FAIL() << "round " << round << ": rows " << rows << "k " << c.shape.k << " n " << c.shape.n
             << ", activations " << static_cast<int>(c.activations) << ", "
             << name(c.options.transfer) << ", workspace " << name(c.options.workspace) << " of "
             << c.options.stages << " x " << c.options.stage_rows << ", threads "
             << c.options.compute_threads << " + " << c.options.comm_threads;
    }
  }
}

TEST(AllGatherGemmDequant, EveryRunnableKernelGivesTheSameBits) {
  for (const KernelInfo& kernel : system_info().kernels) {
    if (!kernel.runnable || kernel.type != DType::s8) continue;
    SCOPED_TRACE(kernel.target);
    for (DType output : {DType::f16, DType::bf16, DType::f32, DType::s32, DType::s8}) {
      check({.shape = {.rows = {50, 41}, .k = 603, .n = 70, .a_type = DType::s8, .c_type = output},
             .activations = ActivationKind::s8_row_scaled,
             .kernel = kernel.target});
    }
  }
}

TEST(AllGatherGemmDequant, F16OverflowsToInfinityOrSaturates) {
  for (bool saturate : {false, true}) {
    Case c{
        .shape = {.rows = {20, 13}, .k = 300, .n = 40, .a_type = DType::s8, .c_type = DType::f16},
        .saturate = saturate,
        .scale_size = 10.0F};
    Problem8 p(c);
    int infinite = 0;
    for (std::int64_t i = 0; i < 33 * 40; ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, static_cast<const std::byte*>(p.expected.view().data) + 2 * i, 2);
      infinite += (bits & 0x7fff) == 0x7c00 ? 1 : 0;
    }
    EXPECT_EQ(infinite > 100, !saturate);
    check(c);
  }
}

TEST(AllGatherGemmDequant, ExtremesAreExact) {
  // -128 × -128 all along a column: the largest sum there is, far beyond any 16-bit step.
  const std::int64_t k = 131071 / 128 * 100;  // 128 · 128 · k stays below 2^31
  for (const KernelInfo& kernel : system_info().kernels) {
    if (!kernel.runnable || kernel.type != DType::s8) continue;
    Buffer a(DType::s8, 3, k), b(DType::s8, k, 5), c(DType::s32, 3, 5);
    std::memset(a.view().data, 0x80, static_cast<std::size_t>(3 * k));
    std::memset(b.view().data, 0x80, static_cast<std::size_t>(5 * k));
    run_ranks(RanksAs::threads, 1, [&](const World& world) {
      auto weights = PackedWeights::pack(b.view(), {.kernel = kernel.target});
      ASSERT_TRUE(weights.ok()) << weights.status().message();
      auto op = AllGatherGemmDequant::create(world, *weights, {}, {.max_rows = 3});
      ASSERT_TRUE(op.ok()) << op.status().message();
      ASSERT_TRUE(op->run({.a = a.view(), .c = c.view()}).ok());
      for (int i = 0; i < 15; ++i) {
        std::int32_t value = 0;
        std::memcpy(&value, static_cast<const std::byte*>(c.view().data) + 4 * i, 4);
        EXPECT_EQ(value, 128 * 128 * k) << kernel.target;
      }
    });
  }
}

TEST(AllGatherGemmDequant, WeightsThatCouldOverflowAreRefused) {
  const std::int64_t k = 131072;  // 128 · 128 · k = 2^31, one more than s32 holds
  Buffer b(DType::s8, k, 3);
  std::memset(b.view().data, 0, static_cast<std::size_t>(3 * k));
  for (std::int64_t i = 0; i < k; ++i) static_cast<std::int8_t*>(b.view().data)[3 * i + 2] = -128;
  auto packed = PackedWeights::pack(b.view(), {});
  ASSERT_FALSE(packed.ok());
  EXPECT_EQ(packed.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(packed.status().message(), HasSubstr("column 2"));
  EXPECT_THAT(packed.status().message(), HasSubstr("2147483648"));
  static_cast<std::int8_t*>(b.view().data)[2] = -127;
  EXPECT_TRUE(PackedWeights::pack(b.view(), {}).ok());
  const std::vector<std::int32_t> bias{0, 0, 128};
  EXPECT_FALSE(PackedWeights::pack(b.view(), {.bias = bias}).ok());
}

TEST(AllGatherGemmDequant, ANanScaleGivesNanAndANanRowOnlyItself) {
  Case c{.shape = {.rows = {4, 3}, .k = 20, .n = 6, .a_type = DType::f32},
         .activations = ActivationKind::quantised};
  Problem8 p(c);
  p.scale[2] = std::numeric_limits<float>::quiet_NaN();
  static_cast<float*>(p.given.view().data)[5 * 20 + 7] = std::numeric_limits<float>::infinity();
  run_ranks(RanksAs::threads, 2, [&](const World& world) {
    auto weights = PackedWeights::pack(p.b.view(), {.bias = p.bias});
    auto op = AllGatherGemmDequant::create(world, *weights, {.scale = p.scale}, {.max_rows = 4},
                                           ActivationKind::quantised);
    ASSERT_TRUE(op.ok()) << op.status().message();
    const std::int64_t row0 = world.rank() == 0 ? 0 : 4;
    const Matrix all = p.given.view();
    Buffer result(DType::f32, 7, 6);
    const Status status =
        op->run({.a = {all.row(row0), all.type, world.rank() == 0 ? 4 : 3, 20, 20},
                 .c = result.view(),
                 .rows = c.shape.rows});
    ASSERT_TRUE(status.ok()) << status.message();
    for (std::int64_t i = 0; i < 7; ++i) {
      for (std::int64_t j = 0; j < 6; ++j) {
        const float value = static_cast<const float*>(result.view().data)[i * 6 + j];
        EXPECT_EQ(std::isnan(value), i == 5 || j == 2) << i << ", " << j;
      }
    }
  });
}

TEST(AllGatherGemmDequant, BadArgumentsAreNamed) {
  Case c{.shape = {.rows = {4}, .k = 8, .n = 6, .a_type = DType::s8}};
  Problem8 p(c);
  run_ranks(RanksAs::threads, 1, [&](const World& world) {
    auto weights = PackedWeights::pack(p.b.view(), {.bias = p.bias});
    ASSERT_TRUE(weights.ok());
    const std::vector<float> five(5, 1.0F);
    auto bad = AllGatherGemmDequant::create(world, *weights, {.scale = five}, {.max_rows = 4});
    ASSERT_FALSE(bad.ok());
    EXPECT_THAT(bad.status().message(), HasSubstr("scale has 5 entries for 6 columns"));
    const std::vector<std::int32_t> two(2, 1);
    EXPECT_THAT(PackedWeights::pack(p.b.view(), {.bias = two}).status().message(),
                HasSubstr("bias has 2 entries for 6 columns"));

    auto op = AllGatherGemmDequant::create(world, *weights, {}, {.max_rows = 4});
    ASSERT_TRUE(op.ok());
    Buffer f16(DType::f16, 4, 6), s32(DType::s32, 4, 6);
    EXPECT_THAT(op->run({.a = p.a.view(), .c = f16.view()}).message(), HasSubstr("needs scale"));
    EXPECT_THAT(op->run({.a = p.a.view(), .c = s32.view(), .row_scale = five}).message(),
                HasSubstr("row_scale has 5 entries"));
    Buffer floats(DType::f32, 4, 8);
    EXPECT_THAT(op->run({.a = floats.view(), .c = s32.view()}).message(),
                HasSubstr("a has type f32"));
    EXPECT_TRUE(op->run({.a = p.a.view(), .c = s32.view()}).ok());
  });
}

}  // namespace
}  // namespace tandem::testing_ranks
