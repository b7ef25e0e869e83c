// SPDX-License-Identifier: Apache-2.0
//
// The blocked multiply, driven as the compute engine drives it, with every kernel that this CPU
// runs: shapes around the register, row, column and K-blocks, both layouts, all output types.
// Compared bit for bit with the contract written out in expected_c().
#include "block/multiply.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "platform/topology.h"
#include "tests/tile/elements.h"

namespace tandem::block {
namespace {

using tandem::testing::add_block;
using tandem::testing::chain;
using tandem::testing::element;
using tandem::testing::PoisonedBytes;
using tandem::testing::random_elements;
using tandem::testing::same;

struct Shape {
  std::int64_t m, k, n;
};

/// Matrices inside larger ones, so that a stride mistaken for a width shows.
struct Problem {
  Problem(DType operand, Shape s, BLayout b_layout, std::uint64_t seed)
      : type(operand),
        shape(s),
        layout(b_layout),
        a_stride(s.k + 7),
        b_stride((b_layout == BLayout::kn ? s.n : s.k) + 5),
        a(random_elements(type, s.m * a_stride, seed)),
        b(random_elements(type, (b_layout == BLayout::kn ? s.k : s.n) * b_stride, seed + 1)) {}

  [[nodiscard]] ConstMatrix b_view() const {
    return layout == BLayout::kn ? ConstMatrix{b.data(), type, shape.k, shape.n, b_stride}
                                 : ConstMatrix{b.data(), type, shape.n, shape.k, b_stride};
  }

  DType type;
  Shape shape;
  BLayout layout;
  std::int64_t a_stride, b_stride;
  std::vector<std::byte> a, b;
};

/// The contract: chains over blocks of kKc, block sums added in ascending order.
std::vector<float> expected_c(const Problem& p) {
  std::vector<float> a, b, c;
  for (std::int64_t i = 0; i < p.shape.m; ++i) {
    for (std::int64_t k = 0; k < p.shape.k; ++k) {
      a.push_back(element(p.a, p.type, i * p.a_stride + k));
    }
  }
  for (std::int64_t j = 0; j < p.shape.n; ++j) {
    for (std::int64_t k = 0; k < p.shape.k; ++k) {
      b.push_back(
          element(p.b, p.type, p.layout == BLayout::kn ? k * p.b_stride + j : j * p.b_stride + k));
    }
  }
  for (std::int64_t i = 0; i < p.shape.m; ++i) {
    for (std::int64_t j = 0; j < p.shape.n; ++j) {
      const float* row = a.data() + i * p.shape.k;
      const float* column = b.data() + j * p.shape.k;
      float total = 0;
      for (std::int64_t k0 = 0; k0 < p.shape.k; k0 += tile::kKc) {
        const float sum = chain(
            p.type, std::min(tile::kKc, p.shape.k - k0),
            [&](std::int64_t k) { return row[k0 + k]; },
            [&](std::int64_t k) { return column[k0 + k]; });
        total = k0 == 0 ? sum : add_block(p.type, total, sum);
      }
      c.push_back(total);
    }
  }
  return c;
}

/// Row blocks of mc, column groups of nc. B is packed panel by panel, last first: ranges are
/// independent.
void multiply_all(const tile::Kernel& kernel, const Blocking& blocking, const Problem& p,
                  Matrix c) {
  PackedB packed{&kernel, p.shape.k, p.shape.n, nullptr};
  PoisonedBytes b(packed.bytes());
  packed.data = b.data();
  for (std::int64_t panel = packed.panels() - 1; panel >= 0; --panel) {
    pack_b(p.b_view(), p.layout, panel, panel + 1, packed);
  }
  PoisonedBytes packed_a(packed_a_bytes(kernel, blocking));
  PoisonedBytes accumulators(accumulator_bytes(kernel, blocking));
  for (std::int64_t row0 = 0; row0 < p.shape.m; row0 += blocking.mc) {
    const std::int64_t rows = std::min(blocking.mc, p.shape.m - row0);
    std::vector<const std::byte*> pointers;
    for (std::int64_t i = 0; i < rows; ++i) {
      pointers.push_back(p.a.data() +
                         static_cast<std::size_t>((row0 + i) * p.a_stride) * size_of(p.type));
    }
    for (std::int64_t col0 = 0; col0 < p.shape.n; col0 += blocking.nc) {
      const std::int64_t cols = std::min(blocking.nc, p.shape.n - col0);
      for (std::int64_t k0 = 0; k0 < p.shape.k; k0 += tile::kKc) {
        const std::int64_t kc = std::min(tile::kKc, p.shape.k - k0);
        pack_a(kernel, pointers.data(), rows, k0, kc, packed_a.data());
        multiply(packed, packed_a.data(),
                 {.rows = rows,
                  .k0 = k0,
                  .kc = kc,
                  .col0 = col0,
                  .cols = cols,
                  .rows_ahead = p.layout == BLayout::kn ? pointers.data() : nullptr},
                 accumulators.data(),
                 {.c = {c.row(row0) + static_cast<std::size_t>(col0) * size_of(c.type), c.type,
                        rows, cols, c.stride}});
      }
    }
  }
}

void check(const tile::Kernel& kernel, const Blocking& blocking, Shape shape, BLayout layout,
           DType c_type) {
  const Problem problem(kernel.type, shape, layout, 3);
  const auto expected = expected_c(problem);
  const std::int64_t stride = shape.n + 3;
  PoisonedBytes c(static_cast<std::size_t>(shape.m * stride) * size_of(c_type));
  multiply_all(kernel, blocking, problem, {c.data(), c_type, shape.m, shape.n, stride});
  for (std::int64_t i = 0; i < shape.m; ++i) {
    for (std::int64_t j = 0; j < stride; ++j) {
      const float got = base::load_element(
          c_type, c.data() + static_cast<std::size_t>(i * stride + j) * size_of(c_type));
      if (j >= shape.n) {
        ASSERT_TRUE(std::isnan(got)) << "wrote beyond row " << i;
        continue;
      }
      std::byte rounded[4];
      base::store_element(c_type, expected[static_cast<std::size_t>(i * shape.n + j)], rounded);
      ASSERT_TRUE(same(got, base::load_element(c_type, rounded)))
          << kernel.target << " " << name(kernel.type) << " " << shape.m << " x " << shape.k
          << " x " << shape.n << " " << name(layout) << " at (" << i << ", " << j << "): " << got;
    }
  }
}

class MultiplyTest : public ::testing::TestWithParam<tile::Kernel> {
 protected:
  void SetUp() override {
    std::string why;
    if (!GetParam().runs_on(platform::cpu_features(), &why)) GTEST_SKIP() << why;
  }
};

TEST_P(MultiplyTest, ShapesAroundTheRegisterBlock) {
  const tile::Kernel& kernel = GetParam();
  const std::int64_t mr = kernel.mr, nr = kernel.nr;
  for (const std::int64_t m : {std::int64_t{1}, mr - 1, mr, mr + 1, 2 * mr + 1}) {
    for (const std::int64_t n : {std::int64_t{1}, nr - 1, nr, nr + 1, 2 * nr + 1}) {
      for (const std::int64_t k : {1, 2, 33}) {
        for (const BLayout layout : {BLayout::kn, BLayout::nk}) {
          ASSERT_NO_FATAL_FAILURE(check(kernel, {2 * mr, 2 * nr}, {m, k, n}, layout, DType::f32));
        }
      }
    }
  }
}

TEST_P(MultiplyTest, ShapesAroundTheBlocks) {
  const tile::Kernel& kernel = GetParam();
  const Blocking small{2 * kernel.mr, 2 * kernel.nr};
  for (const std::int64_t k : {tile::kKc - 1, tile::kKc, tile::kKc + 1, 2 * tile::kKc + 9}) {
    for (const std::int64_t beyond : {-1, 0, 1}) {
      const Shape shape{small.mc + beyond, k, small.nc + beyond};
      const BLayout layout = beyond == 0 ? BLayout::kn : BLayout::nk;
      ASSERT_NO_FATAL_FAILURE(check(kernel, small, shape, layout, DType::f32));
    }
  }
}

TEST_P(MultiplyTest, EveryRowCountOfABlock) {
  const tile::Kernel& kernel = GetParam();
  const Blocking blocking{4 * kernel.mr, kernel.nr};
  for (std::int64_t m = 1; m <= blocking.mc; ++m) {
    ASSERT_NO_FATAL_FAILURE(check(kernel, blocking, {m, 5, kernel.nr}, BLayout::kn, DType::f32));
  }
}

TEST_P(MultiplyTest, OutputTypes) {
  const tile::Kernel& kernel = GetParam();
  const Blocking blocking{2 * kernel.mr, 2 * kernel.nr};
  for (const DType type : {DType::f16, DType::bf16}) {
    ASSERT_NO_FATAL_FAILURE(
        check(kernel, blocking, {kernel.mr + 3, 300, 2 * kernel.nr + 5}, BLayout::kn, type));
  }
}

TEST_P(MultiplyTest, BlockingFitsTheCaches) {
  const tile::Kernel& kernel = GetParam();
  for (const std::int64_t l2 : {64 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 64 << 20}) {
    const base::CacheSizes caches{32 << 10, l2, 8 << 20};
    const Blocking blocking = blocking_for(kernel, caches);
    EXPECT_GE(blocking.mc, kernel.mr);
    EXPECT_GE(blocking.nc, kernel.nr);
    EXPECT_EQ(blocking.mc % kernel.mr, 0);
    EXPECT_EQ(blocking.nc % kernel.nr, 0);
    if (l2 >= 256 << 10) {
      EXPECT_LE(packed_a_bytes(kernel, blocking) + accumulator_bytes(kernel, blocking),
                static_cast<std::size_t>(l2));
    }
    const Shape shape{std::min<std::int64_t>(blocking.mc + 1, 70), 20, 40};
    ASSERT_NO_FATAL_FAILURE(check(kernel, blocking, shape, BLayout::nk, DType::f32));
  }
}

TEST_P(MultiplyTest, PackedBIsNoLargerThanWholePanelsAndGroups) {
  const tile::Kernel& kernel = GetParam();
  const PackedB packed{&kernel, 777, 10 * kernel.nr + 1, nullptr};
  EXPECT_EQ(packed.panels(), 11);
  const std::int64_t depth = (777 + kernel.k_group - 1) / kernel.k_group * kernel.k_group;
  EXPECT_EQ(packed.bytes(), static_cast<std::size_t>(depth * 11 * kernel.nr) * kernel.b_bytes);
}

INSTANTIATE_TEST_SUITE_P(Table, MultiplyTest, ::testing::ValuesIn(tandem::testing::float_kernels()),
                         [](const auto& param) {
                           return std::string(param.param.target) + "_" +
                                  std::string(name(param.param.type));
                         });

}  // namespace
}  // namespace tandem::block
