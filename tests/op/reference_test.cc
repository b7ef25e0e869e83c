// SPDX-License-Identifier: Apache-2.0
//
// The reference that everything else is checked against: its multiply against the contract in three
// nested loops, on values of the whole range; its inputs' promises; and that compare() sees every
// difference and forgives nothing but the payload of a NaN.
#include "tandem/reference.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tile/elements.h"
#include "tile/contract.h"

namespace tandem {
namespace {

using testing::element;
using ::testing::HasSubstr;
using testing::random_elements;
using testing::same;

struct Shape {
  std::int64_t m, k, n;
};

/// A, B and C inside wider matrices. C starts as bytes of 0xff.
struct Problem {
  Problem(DType type, BLayout b_layout, DType c_type, Shape s)
      : layout(b_layout),
        a_data(random_elements(type, s.m * (s.k + 3), 1)),
        b_data(
            random_elements(type, b_layout == BLayout::kn ? s.k * (s.n + 2) : s.n * (s.k + 2), 2)),
        c_data(static_cast<std::size_t>(s.m * (s.n + 1)) * size_of(c_type), std::byte{0xff}),
        a{a_data.data(), type, s.m, s.k, s.k + 3},
        b{b_layout == BLayout::kn ? ConstMatrix{b_data.data(), type, s.k, s.n, s.n + 2}
                                  : ConstMatrix{b_data.data(), type, s.n, s.k, s.k + 2}},
        c{c_data.data(), c_type, s.m, s.n, s.n + 1} {}

  [[nodiscard]] float expected(std::int64_t i, std::int64_t j) const {
    float total = 0;
    for (std::int64_t k0 = 0; k0 < a.cols; k0 += tile::kKc) {
      const float sum = testing::chain(
          a.type, std::min(tile::kKc, a.cols - k0),
          [&](std::int64_t k) { return element(a_data, a.type, i * a.stride + k0 + k); },
          [&](std::int64_t k) {
            const std::int64_t at =
                layout == BLayout::kn ? (k0 + k) * b.stride + j : j * b.stride + k0 + k;
            return element(b_data, b.type, at);
          });
      total = k0 == 0 ? sum : testing::add_block(a.type, total, sum);
    }
    std::byte rounded[4];
    base::store_element(c.type, total, rounded);
    return base::load_element(c.type, rounded);
  }

  void expect_c() const {
    for (std::int64_t i = 0; i < c.rows; ++i) {
      for (std::int64_t j = 0; j < c.stride; ++j) {
        const float got = element(c_data, c.type, i * c.stride + j);
        if (j >= c.cols) {
          ASSERT_TRUE(std::isnan(got)) << "wrote beyond row " << i;
        } else {
          ASSERT_TRUE(same(got, expected(i, j)))
              << name(a.type) << " " << name(layout) << " to " << name(c.type) << " (" << i << ", "
              << j << "): " << got << " not " << expected(i, j);
        }
      }
    }
  }

  BLayout layout;
  std::vector<std::byte> a_data, b_data, c_data;
  ConstMatrix a, b;
  Matrix c;
};

constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32};

TEST(ReferenceGemm, FollowsTheContract) {
  for (const DType type : kFloats) {
    for (const BLayout layout : {BLayout::kn, BLayout::nk}) {
      for (const Shape shape : {Shape{1, 1, 1}, Shape{5, 7, 63}, Shape{3, tile::kKc, 64},
                                Shape{2, tile::kKc + 1, 65}, Shape{65, 2 * tile::kKc + 3, 9}}) {
        Problem p(type, layout, DType::f32, shape);
        ASSERT_TRUE(reference_gemm(p.a, p.b, layout, p.c).ok());
        ASSERT_NO_FATAL_FAILURE(p.expect_c());
      }
    }
  }
}

TEST(ReferenceGemm, RoundsToEveryOutputType) {
  for (const DType c_type : kFloats) {
    Problem p(DType::f16, BLayout::kn, c_type, {7, 300, 70});
    ASSERT_TRUE(reference_gemm(p.a, p.b, p.layout, p.c).ok());
    ASSERT_NO_FATAL_FAILURE(p.expect_c());
  }
}

TEST(ReferenceGemm, ThreadsShareTheRows) {
  for (const int threads : {2, 3, 16}) {
    Problem p(DType::bf16, BLayout::nk, DType::f32, {200, 20, 30});
    ASSERT_TRUE(reference_gemm(p.a, p.b, p.layout, p.c, threads).ok());
    ASSERT_NO_FATAL_FAILURE(p.expect_c());
  }
}

TEST(ReferenceGemm, IgnoresTheCallersRounding) {
  Problem p(DType::f16, BLayout::kn, DType::f16, {4, 300, 10});
  std::fesetround(FE_UPWARD);
  const Status status = reference_gemm(p.a, p.b, p.layout, p.c);
  const int rounding = std::fegetround();
  std::fesetround(FE_TONEAREST);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(rounding, FE_UPWARD) << "left the caller's rounding changed";
  ASSERT_NO_FATAL_FAILURE(p.expect_c());
}

TEST(ReferenceGemm, AcceptsNoRows) {
  const Matrix none{nullptr, DType::f32, 0, 8, 8};
  std::vector<float> b(64);
  EXPECT_TRUE(reference_gemm(none, dense(b.data(), DType::f32, 8, 8), BLayout::kn, none, 4).ok());
}

TEST(ReferenceGemm, RefusesWhatDoesNotFit) {
  std::vector<float> data(64);
  const auto view = [&](std::int64_t rows, std::int64_t cols, DType type = DType::f32) {
    return dense(data.data(), type, rows, cols);
  };
  const auto refusal = [](const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_THAT(refusal(reference_gemm(view(2, 3), view(4, 5), BLayout::kn, view(2, 5))),
              HasSubstr("b is 4 x 5; this call needs 3 x 5"));
  EXPECT_THAT(refusal(reference_gemm(view(2, 3), view(3, 5), BLayout::kn, view(2, 4))),
              HasSubstr("c is 2 x 4; this call needs 2 x 5"));
  EXPECT_THAT(refusal(reference_gemm(view(2, 3), view(3, 5, DType::f16), BLayout::kn, view(2, 5))),
              HasSubstr("b has type f16"));
  EXPECT_THAT(refusal(reference_gemm(view(2, 3, DType::s8), view(3, 5, DType::s8), BLayout::kn,
                                     view(2, 5))),
              HasSubstr("s8"));
  EXPECT_THAT(refusal(reference_gemm(view(2, 3), view(3, 5), BLayout::kn, view(2, 5), 0)),
              HasSubstr("threads is 0"));
}

/// Rows so small that max / 127 rounds to 0: the scale is then 2^-149, and q is exact.
TEST(ReferenceQuantise, HasAFloorUnderItsScale) {
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  for (int most = 1; most <= 63; ++most) {
    std::vector<float> row;
    for (int i = -most; i <= most; ++i) row.push_back(static_cast<float>(i) * kLeast);
    const auto count = static_cast<std::int64_t>(row.size());
    std::vector<std::int8_t> q(row.size());
    float scale = 0;
    ASSERT_TRUE(reference_quantise(dense(row.data(), DType::f32, 1, count),
                                   dense(q.data(), DType::s8, 1, count), {&scale, 1})
                    .ok());
    EXPECT_EQ(scale, kLeast);
    for (int i = -most; i <= most; ++i) ASSERT_EQ(q[static_cast<std::size_t>(i + most)], i);
  }
  const std::vector<float> zeros(3, -0.0F);
  std::vector<std::int8_t> q(3, 99);
  float scale = 0;
  ASSERT_TRUE(reference_quantise(dense(zeros.data(), DType::f32, 1, 3),
                                 dense(q.data(), DType::s8, 1, 3), {&scale, 1})
                  .ok());
  EXPECT_EQ(scale, 1.0F);
  EXPECT_EQ(q, std::vector<std::int8_t>(3, 0));
}

TEST(FillRandom, DependsOnSeedRowAndColumnOnly) {
  for (const DType type : kFloats) {
    std::vector<std::byte> whole(8 * 16 * 4), part(3 * 21 * 4);
    fill_random(dense(whole.data(), type, 8, 16), 9);
    fill_random({part.data(), type, 3, 16, 21}, 9, 5);
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t j = 0; j < 16; ++j) {
        EXPECT_EQ(element(part, type, i * 21 + j), element(whole, type, (i + 5) * 16 + j));
      }
    }
    std::vector<std::byte> other(whole.size());
    fill_random(dense(other.data(), type, 8, 16), 10);
    EXPECT_NE(whole, other);
  }
}

TEST(FillRandom, IsSpreadOverItsRange) {
  constexpr std::int64_t kSize = 200;
  std::vector<float> values(kSize * kSize);
  fill_random(dense(values.data(), DType::f32, kSize, kSize), 1);
  const std::set<float> distinct(values.begin(), values.end());
  EXPECT_GT(distinct.size(), values.size() * 99 / 100);
  EXPECT_GE(*distinct.begin(), -1.0f);
  EXPECT_LT(*distinct.rbegin(), 1.0f);
  double sum = 0, squares = 0;
  for (const float v : values) {
    sum += static_cast<double>(v);
    squares += static_cast<double>(v) * static_cast<double>(v);
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 0.0, 0.02);            // 7 standard deviations
  EXPECT_NEAR(squares / count, 1.0 / 3.0, 0.02);  // 13
}

TEST(Compare, SeesEveryDifferenceButNanPayloads) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> a{1, 2, nan, 0.0f, 5, 6}, b = a;
  const auto view = [](std::vector<float>& v) { return dense(v.data(), DType::f32, 2, 3); };
  b[2] = -nan;
  auto result = compare(view(a), view(b));
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->equal());
  EXPECT_EQ(result->elements, 6);

  b[3] = -0.0f;
  b[5] = std::nextafter(6.0f, 7.0f);
  result = compare(view(a), view(b));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->different, 2);
  EXPECT_EQ(result->first_row, 1);
  EXPECT_EQ(result->first_col, 0);
  EXPECT_EQ(result->max_abs_difference, static_cast<double>(b[5]) - 6.0);
  EXPECT_EQ(result->text(), "2 of 6 elements differ, the first at (1, 0): got 0, expected -0");

  b = a;
  b[2] = 3;  // NaN against a number
  result = compare(view(a), view(b));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->different, 1);
}

TEST(Compare, LooksPastStridesAndChecksShapes) {
  std::vector<std::int8_t> a{1, -128, 99, 3, 4, 77}, b{1, -128, 3, 4};
  const ConstMatrix wide{a.data(), DType::s8, 2, 2, 3};
  const auto result = compare(wide, dense(b.data(), DType::s8, 2, 2));
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->equal());
  EXPECT_EQ(compare(wide, dense(b.data(), DType::s8, 4, 1)).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(compare(wide, dense(b.data(), DType::f16, 2, 2)).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
