// SPDX-License-Identifier: Apache-2.0
//
// Every kernel of the table that this CPU runs, against the contract written out in this file:
// packing from both layouts, the multiply at all row counts and around kc's steps, the rounding of
// the store. Start reading at expected_tile().
#include "tile/kernel.h"

#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "base/float_environment.h"
#include "platform/topology.h"
#include "tests/tile/elements.h"
#include "tile/contract.h"

namespace tandem::tile {
namespace {

using tandem::testing::add_block;
using tandem::testing::chain;
using tandem::testing::element;
using tandem::testing::PoisonedBytes;
using tandem::testing::random_elements;
using tandem::testing::same;

/// One tile's problem: rows × kc of A, kc × cols of B, both inside larger matrices.
struct Case {
  int rows, cols;
  std::int64_t kc;
  BLayout layout;
};

struct Inputs {
  std::vector<std::byte> a, b;
  std::int64_t a_stride, b_stride;
};

Inputs make_inputs(const Kernel& kernel, const Case& c, std::uint64_t seed) {
  Inputs in;
  in.a_stride = c.kc + 3;
  in.b_stride = (c.layout == BLayout::kn ? c.cols : c.kc) + 5;
  in.a = random_elements(kernel.type, c.rows * in.a_stride, seed);
  in.b = random_elements(kernel.type, (c.layout == BLayout::kn ? c.kc : c.cols) * in.b_stride,
                         seed + 1);
  return in;
}

float a_at(const Kernel& kernel, const Inputs& in, std::int64_t i, std::int64_t k) {
  return element(in.a, kernel.type, i * in.a_stride + k);
}
float b_at(const Kernel& kernel, const Case& c, const Inputs& in, std::int64_t k, std::int64_t j) {
  return element(in.b, kernel.type,
                 c.layout == BLayout::kn ? k * in.b_stride + j : j * in.b_stride + k);
}

/// The contract: one chain from zero per element.
std::vector<float> expected_tile(const Kernel& kernel, const Case& c, const Inputs& in) {
  std::vector<float> out;
  for (int i = 0; i < c.rows; ++i) {
    for (int j = 0; j < c.cols; ++j) {
      out.push_back(chain(
          kernel.type, c.kc, [&](std::int64_t k) { return a_at(kernel, in, i, k); },
          [&](std::int64_t k) { return b_at(kernel, c, in, k, j); }));
    }
  }
  return out;
}

/// Packs and multiplies into `tile` with memory poisoned beforehand.
void run(const Kernel& kernel, const Case& c, const Inputs& in, std::byte* tile, bool first) {
  PoisonedBytes a_panel(static_cast<std::size_t>(kernel.mr * kKc) * kernel.a_bytes);
  PoisonedBytes b_panel(static_cast<std::size_t>(kernel.padded(c.kc) * kernel.nr) * kernel.b_bytes);
  std::vector<const std::byte*> rows;
  for (int i = 0; i < c.rows; ++i) {
    rows.push_back(in.a.data() + static_cast<std::size_t>(i * in.a_stride) * size_of(kernel.type));
  }
  kernel.pack_a(rows.data(), c.rows, c.kc, a_panel.data());
  kernel.pack_b(in.b.data(), in.b_stride, c.layout, c.kc, c.cols, b_panel.data());
  const base::SubnormalsFlushed mode(kernel.flushes);
  kernel.multiply(c.kc, a_panel.data(), b_panel.data(), tile, c.rows, first, {});
}

void check(const Kernel& kernel, const Case& c) {
  PoisonedBytes tile(kernel.tile_bytes());
  const Inputs one = make_inputs(kernel, c, 11), two = make_inputs(kernel, c, 77);
  const auto sum_one = expected_tile(kernel, c, one), sum_two = expected_tile(kernel, c, two);
  const auto expect = [&](auto&& value) {
    for (int i = 0; i < kernel.mr; ++i) {
      for (int j = 0; j < kernel.nr; ++j) {
        const float got = tile.f32(i * kernel.nr + j);
        if (i >= c.rows) {
          ASSERT_TRUE(std::isnan(got)) << "wrote row " << i << ", beyond the block";
        } else if (j >= c.cols) {
          ASSERT_TRUE(same(got, 0.0f)) << "column " << j << " beyond N is " << got;
        } else {
          const float want = value(static_cast<std::size_t>(i * c.cols + j));
          ASSERT_TRUE(same(got, want)) << "(" << i << ", " << j << "): " << got << " not " << want;
        }
      }
    }
  };
  SCOPED_TRACE(::testing::Message()
               << kernel.target << " " << name(kernel.type) << " rows " << c.rows << " cols "
               << c.cols << " kc " << c.kc << " " << name(c.layout));
  run(kernel, c, one, tile.data(), true);
  ASSERT_NO_FATAL_FAILURE(expect([&](std::size_t i) { return sum_one[i]; }));
  run(kernel, c, two, tile.data(), false);
  ASSERT_NO_FATAL_FAILURE(
      expect([&](std::size_t i) { return add_block(kernel.type, sum_one[i], sum_two[i]); }));
}

class KernelTest : public ::testing::TestWithParam<Kernel> {
 protected:
  void SetUp() override {
    std::string why;
    if (!GetParam().runs_on(platform::cpu_features(), &why)) GTEST_SKIP() << why;
  }
};

TEST_P(KernelTest, EveryRowAndColumnCount) {
  const Kernel& kernel = GetParam();
  for (const BLayout layout : {BLayout::kn, BLayout::nk}) {
    for (int rows = 1; rows <= kernel.mr; ++rows) {
      ASSERT_NO_FATAL_FAILURE(check(kernel, {rows, kernel.nr, 19, layout}));
    }
    for (int cols = 1; cols < kernel.nr; ++cols) {
      ASSERT_NO_FATAL_FAILURE(check(kernel, {2, cols, 19, layout}));
    }
  }
}

TEST_P(KernelTest, EveryDepthAroundTheVectors) {
  const Kernel& kernel = GetParam();
  std::set<std::int64_t> depths{47, 63, 64, 65, 129, kKc - 1, kKc};
  for (std::int64_t kc = 1; kc <= 34; ++kc) depths.insert(kc);
  for (const BLayout layout : {BLayout::kn, BLayout::nk}) {
    for (const std::int64_t kc : depths) {
      ASSERT_NO_FATAL_FAILURE(check(kernel, {kernel.mr, kernel.nr, kc, layout}));
      ASSERT_NO_FATAL_FAILURE(check(kernel, {1, kernel.nr - 1, kc, layout}));
    }
  }
}

/// A one-by-one product shows how every pattern is widened: 1 · x, with the sign of zero lost in
/// 0 + 0 only where the contract loses it too.
TEST_P(KernelTest, WidensEveryPattern) {
  const Kernel& kernel = GetParam();
  if (kernel.type == DType::f32) return;  // is not widened
  const auto nr = static_cast<std::size_t>(kernel.nr);
  PoisonedBytes a_panel(static_cast<std::size_t>(kernel.mr * kKc) * kernel.a_bytes);
  PoisonedBytes b_panel(static_cast<std::size_t>(kernel.k_group) * nr * kernel.b_bytes);
  PoisonedBytes tile(kernel.tile_bytes());
  const base::SubnormalsFlushed mode(kernel.flushes);
  std::byte one[4];
  base::store_element(kernel.type, 1.0f, one);
  const auto as_bytes = [](const std::uint16_t* from) {
    return reinterpret_cast<const std::byte*>(from);
  };
  std::vector<std::uint16_t> patterns(nr);
  for (std::uint32_t pattern = 0; pattern < 65536; pattern += static_cast<std::uint32_t>(nr)) {
    for (std::uint32_t j = 0; j < nr; ++j) patterns[j] = static_cast<std::uint16_t>(pattern + j);
    const auto value = [&](std::size_t j) {
      return base::load_element(kernel.type, as_bytes(&patterns[j]));
    };
    const auto expected = [&](std::size_t j) {
      return chain(
          kernel.type, 1, [](std::int64_t) { return 1.0f; },
          [&](std::int64_t) { return value(j); });
    };
    // In B …
    const std::byte* row = one;
    kernel.pack_a(&row, 1, 1, a_panel.data());
    kernel.pack_b(as_bytes(patterns.data()), kernel.nr, BLayout::kn, 1, kernel.nr, b_panel.data());
    kernel.multiply(1, a_panel.data(), b_panel.data(), tile.data(), 1, true, {});
    for (std::size_t j = 0; j < nr; ++j) {
      ASSERT_TRUE(same(tile.f32(static_cast<std::int64_t>(j)), expected(j))) << patterns[j];
    }
    // … and in A, as a row, packed in one go, where A is widened.
    if (kernel.a_bytes != sizeof(float)) continue;
    row = as_bytes(patterns.data());
    kernel.pack_a(&row, 1, kernel.nr, a_panel.data());
    for (std::size_t j = 0; j < nr; ++j) {
      ASSERT_TRUE(same(a_panel.f32(static_cast<std::int64_t>(j)), value(j))) << patterns[j];
    }
  }
}

/// bf16 patterns whose products and sums come out near the smallest normal f32, 2^-126, on both
/// sides of where they are flushed, with zeros, subnormals and specials among them.
std::vector<std::byte> near_the_smallest_normal(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> out(static_cast<std::size_t>(count) * 2);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t draw = random();
    std::uint32_t exponent = 0;  // biased
    switch (draw % 16) {
      case 0:
        break;  // zero or subnormal
      case 1:
        exponent = draw / 16 % 8 == 0 ? 255 : 1;  // infinity, NaN, or the smallest
        break;
      case 2:
      case 3:
      case 4:
        exponent = 127 - 75;  // products of 2^-150: half an ulp below 2^-126
        break;
      default:
        exponent = 127 - 63 + static_cast<std::uint32_t>(draw / 16 % 3) - 1;
    }
    const auto mantissa = static_cast<std::uint32_t>(draw >> 32) & (draw >> 40 & 1 ? 0x7fU : 0U);
    const auto pattern = static_cast<std::uint16_t>((draw >> 63) << 15 | exponent << 7 | mantissa);
    std::memcpy(out.data() + 2 * i, &pattern, 2);
  }
  return out;
}

TEST_P(KernelTest, FlushesWhereTheContractSays) {
  const Kernel& kernel = GetParam();
  if (kernel.type != DType::bf16) return;
  int at_the_border = 0, flushed = 0, flushed_sums = 0;
  for (std::uint64_t trial = 0; trial < 400; ++trial) {
    const auto kc = static_cast<std::int64_t>(1 + trial % 5);
    const Case c{kernel.mr, kernel.nr, kc, trial % 2 == 0 ? BLayout::kn : BLayout::nk};
    Inputs in = make_inputs(kernel, c, trial);
    in.a = near_the_smallest_normal(static_cast<std::int64_t>(in.a.size() / 2), 2 * trial);
    in.b = near_the_smallest_normal(static_cast<std::int64_t>(in.b.size() / 2), 2 * trial + 1);
    PoisonedBytes tile(kernel.tile_bytes());
    run(kernel, c, in, tile.data(), true);
    const auto expected = expected_tile(kernel, c, in);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const float got = tile.f32(static_cast<std::int64_t>(i));
      ASSERT_TRUE(same(got, expected[i]))
          << "trial " << trial << ": " << got << " not " << expected[i];
      if (std::abs(expected[i]) == 0x1p-126f) ++at_the_border;
      if (expected[i] == 0.0f) ++flushed;
    }
    // Another block, so that sums of blocks become subnormal as well.
    in.a = near_the_smallest_normal(static_cast<std::int64_t>(in.a.size() / 2), ~trial);
    run(kernel, c, in, tile.data(), false);
    const auto more = expected_tile(kernel, c, in);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const float got = tile.f32(static_cast<std::int64_t>(i));
      const float sum = add_block(kernel.type, expected[i], more[i]);
      ASSERT_TRUE(same(got, sum)) << "trial " << trial << ", block sum: " << got << " not " << sum;
      if (sum == 0.0f && expected[i] != -more[i]) ++flushed_sums;
    }
  }
  EXPECT_GT(at_the_border, 0);
  EXPECT_GT(flushed, 0);
  EXPECT_GT(flushed_sums, 0);
}

/// The contract's step itself: above 2^-126 nothing is flushed, below everything, and what rounding
/// brings there from below only where 24 bits with a smaller exponent would not have sufficed.
TEST(Bf16Step, DecidesAfterRounding) {
  const float smallest = 0x1p-126f, half = 0x1p-75f;
  const auto step = [&](float a, float b) { return base::fma_flushed(a, b, smallest); };
  EXPECT_TRUE(same(step(half, -half), 0.0f));             // 2^-126 - 2^-150: 24 bits hold it
  EXPECT_TRUE(same(step(half, -half * 0.5f), smallest));  // a quarter: to even, 2^-126
  EXPECT_TRUE(same(step(half, -half * 0.75f), 0.0f));     // nearer to the one below
  EXPECT_TRUE(same(step(half, half), smallest));          // 2^-126 + 2^-150: a tie, to even
  EXPECT_TRUE(same(step(half, half * 1.5f), smallest + 0x1p-149f));
  EXPECT_TRUE(same(base::fma_flushed(-half, half, -0.0f), -0.0f));
  EXPECT_TRUE(same(base::fma_flushed(0x1p100f, 0x1p-100f, -1.0f), 0.0f));  // exact: no flush
}

TEST_P(KernelTest, InfinitiesAndNanPropagate) {
  const Kernel& kernel = GetParam();
  const Case c{1, kernel.nr, 4, BLayout::kn};
  Inputs in = make_inputs(kernel, c, 5);
  const auto put = [&](std::vector<std::byte>& to, std::int64_t index, float value) {
    base::store_element(kernel.type, value,
                        to.data() + static_cast<std::size_t>(index) * size_of(kernel.type));
  };
  const float infinity = std::numeric_limits<float>::infinity();
  for (std::int64_t k = 0; k < c.kc; ++k) put(in.a, k, 1.0f);
  put(in.b, 0, infinity);                 // column 0: +Inf
  put(in.b, 1, -infinity);                // column 1: -Inf
  put(in.b, 2, infinity);                 // column 2: Inf - Inf = NaN
  put(in.b, in.b_stride + 2, -infinity);  //
  put(in.b, 3, std::nanf(""));            // column 3: NaN
  for (std::int64_t k = 0; k < c.kc; ++k) put(in.b, k * in.b_stride + 4, -0.0f);  // +0: 0 + -0
  PoisonedBytes tile(kernel.tile_bytes());
  run(kernel, c, in, tile.data(), true);
  EXPECT_EQ(tile.f32(0), infinity);
  EXPECT_EQ(tile.f32(1), -infinity);
  EXPECT_TRUE(std::isnan(tile.f32(2)));
  EXPECT_TRUE(std::isnan(tile.f32(3)));
  EXPECT_TRUE(same(tile.f32(4), 0.0f));
  for (std::size_t j = 0; j < static_cast<std::size_t>(c.cols); ++j) {
    EXPECT_TRUE(same(tile.f32(static_cast<std::int64_t>(j)), expected_tile(kernel, c, in)[j]));
  }
}

/// Values that a store must round: patterns of every exponent, with ties, specials among them.
std::vector<float> store_values(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> out;
  for (std::int64_t i = 0; i < count; ++i) {
    auto bits = static_cast<std::uint32_t>(random());
    if (i % 3 == 1) bits = (bits & 0xffff0000u) | 0x8000u;       // a tie in bf16
    if (i % 3 == 2) bits = (bits & 0x87ffe000u) | 0x38001000u;   // a tie in f16
    if (i % 5 == 4) bits = (bits & 0x80ffffffu) | 0x33000000u;   // f16 subnormal
    if (i % 97 == 0) bits = (bits & 0x80000000u) | 0x7f800000u;  // infinity
    if (i % 101 == 0) bits |= 0x7f800001u;                       // NaN
    out.push_back(std::bit_cast<float>(bits));
  }
  return out;
}

TEST_P(KernelTest, StoresEveryShapeAndType) {
  const Kernel& kernel = GetParam();
  PoisonedBytes tile(kernel.tile_bytes());
  std::uint64_t seed = 0;
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (int cols = 1; cols <= kernel.nr; ++cols) {
      const int rows = 1 + cols % kernel.mr;
      const auto values = store_values(kernel.mr * kernel.nr, ++seed);
      std::memcpy(tile.data(), values.data(), tile.size());
      const auto bytes = static_cast<std::int64_t>(size_of(type));
      const std::int64_t pitch = (cols + 3) * bytes;
      // From an odd address: C's alignment is the user's.
      std::vector<std::byte> out(static_cast<std::size_t>(kernel.mr * pitch + 1), std::byte{0xa5});
      kernel.store(tile.data(), rows, cols, type, out.data() + 1, pitch);
      for (int i = 0; i < kernel.mr; ++i) {
        for (int j = 0; j < cols + 3; ++j) {
          const std::byte* at = out.data() + 1 + i * pitch + j * bytes;
          if (i >= rows || j >= cols) {
            for (std::int64_t b = 0; b < bytes; ++b) {
              ASSERT_EQ(at[b], std::byte{0xa5}) << "wrote outside at " << i << ", " << j;
            }
            continue;
          }
          const float value = values[static_cast<std::size_t>(i * kernel.nr + j)];
          std::byte expected[4];
          base::store_element(type, value, expected);
          const float want = base::load_element(type, expected);
          ASSERT_TRUE(same(base::load_element(type, at), want))
              << kernel.target << " " << name(type) << " of " << value;
        }
      }
    }
  }
}

/// The other tests follow the constant; this one says that it may never change.
TEST(Contract, BlockLengthIsFixed) { EXPECT_EQ(kKc, 256); }

TEST(KernelTable, IsWellFormed) {
  std::set<std::pair<std::string_view, DType>> seen;
  for (const Kernel& kernel : kernel_table()) {
    EXPECT_TRUE(seen.emplace(kernel.target, kernel.type).second) << kernel.target << " twice";
    EXPECT_EQ(kernel.b_bytes, size_of(kernel.type));
    EXPECT_EQ(kernel.accumulator, kernel.type == DType::s8 ? DType::s32 : DType::f32);
    EXPECT_GE(kernel.mr, 1);
    EXPECT_LE(kernel.mr, kMaxMr);
    EXPECT_GE(kernel.nr, 1);
  }
  EXPECT_EQ(kernel_table().back().target, "scalar");
}

INSTANTIATE_TEST_SUITE_P(Table, KernelTest, ::testing::ValuesIn(tandem::testing::float_kernels()),
                         [](const auto& param) {
                           return std::string(param.param.target) + "_" +
                                  std::string(name(param.param.type));
                         });

}  // namespace
}  // namespace tandem::tile
