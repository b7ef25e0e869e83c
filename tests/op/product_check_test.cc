// SPDX-License-Identifier: Apache-2.0
//
// ProductCheck and reference_dequantise() against the integer oracle: right sums pass, any one
// wrong bit is found, and sums + dequantisation give the oracle's outputs.
#include "tandem/product_check.h"

#include <cstring>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/reference.h"

namespace tandem {
namespace {

struct Sums {
  Sums(std::int64_t m_, std::int64_t k_, std::int64_t n_, BLayout layout_, std::uint64_t seed)
      : m(m_), k(k_), n(n_), layout(layout_) {
    fill_random(a(), seed);
    fill_random(b(), seed + 1);
    std::mt19937_64 random(seed);
    for (std::int64_t j = 0; j < n; ++j) {
      bias.push_back(static_cast<std::int32_t>(random() % 131073) - 65536);
      scale.push_back(static_cast<float>(random() % 1000) * 1e-3F);
    }
    for (std::int64_t i = 0; i < m; ++i) row_scale.push_back(static_cast<float>(i + 1) * 0.1F);
    EXPECT_TRUE(reference_gemm_dequant({a(), b(), layout, bias, {}, {}}, sums()).ok());
  }
  Matrix a() { return dense(a_.data(), DType::s8, m, k); }
  Matrix b() {
    return layout == BLayout::kn ? dense(b_.data(), DType::s8, k, n)
                                 : dense(b_.data(), DType::s8, n, k);
  }
  Matrix sums() { return dense(sums_.data(), DType::s32, m, n); }

  std::int64_t m, k, n;
  BLayout layout;
  std::vector<std::int8_t> a_ = std::vector<std::int8_t>(static_cast<std::size_t>(m * k));
  std::vector<std::int8_t> b_ = std::vector<std::int8_t>(static_cast<std::size_t>(k * n));
  std::vector<std::int32_t> sums_ = std::vector<std::int32_t>(static_cast<std::size_t>(m * n), -1);
  std::vector<std::int32_t> bias;
  std::vector<float> scale, row_scale;
};

TEST(ProductCheck, RightSumsPassAndEveryWrongBitIsFound) {
  for (BLayout layout : {BLayout::kn, BLayout::nk}) {
    Sums p(7, 61, 23, layout, 5);
    auto check = ProductCheck::create(p.b(), layout, p.bias, 9);
    ASSERT_TRUE(check.ok()) << check.status().message();
    EXPECT_EQ(*check->first_wrong_row(p.a(), p.sums()), -1);
    for (std::size_t at = 0; at < p.sums_.size(); at += 13) {
      for (int bit = 0; bit < 32; ++bit) {
        p.sums_[at] ^= static_cast<std::int32_t>(1U << bit);
        EXPECT_EQ(*check->first_wrong_row(p.a(), p.sums()), static_cast<std::int64_t>(at) / p.n);
        p.sums_[at] ^= static_cast<std::int32_t>(1U << bit);
      }
    }
    std::swap(p.sums_[3], p.sums_[4]);
    EXPECT_EQ(*check->first_wrong_row(p.a(), p.sums()), 0) << "columns in another order";
  }
}

TEST(ProductCheck, TheExtremesOfTheRangeAreExact) {
  Sums p(3, 16384, 5, BLayout::kn, 1);
  std::fill(p.a_.begin(), p.a_.end(), std::int8_t{-128});
  std::fill(p.b_.begin(), p.b_.end(), std::int8_t{-128});
  ASSERT_TRUE(reference_gemm_dequant({p.a(), p.b(), p.layout, p.bias, {}, {}}, p.sums()).ok());
  auto check = ProductCheck::create(p.b(), p.layout, p.bias, 2);
  ASSERT_TRUE(check.ok());
  EXPECT_EQ(*check->first_wrong_row(p.a(), p.sums()), -1);
}

TEST(ProductCheck, NamesWhatDoesNotFit) {
  Sums p(2, 3, 4, BLayout::nk, 1);
  const std::vector<std::int32_t> three(3);
  EXPECT_THAT(ProductCheck::create(p.b(), p.layout, three, 1).status().message(),
              testing::HasSubstr("bias has 3 entries for 4 columns"));
  auto check = ProductCheck::create(p.b(), p.layout, {}, 1);
  ASSERT_TRUE(check.ok());
  EXPECT_FALSE(check->first_wrong_row(p.b(), p.sums()).ok());
  EXPECT_FALSE(check->first_wrong_row(p.a(), p.a()).ok());
}

TEST(ReferenceDequantise, IsTheLastStepOfTheOracle) {
  Sums p(9, 40, 17, BLayout::nk, 3);
  p.scale[2] = std::numeric_limits<float>::quiet_NaN();
  p.scale[3] = 1e30F;
  const std::vector<float> requantise{0.01F};
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::s32, DType::s8}) {
    for (bool saturate : {false, true}) {
      const Dequantisation d{.scale = p.scale, .requantise = requantise, .saturate = saturate};
      std::vector<std::byte> x(static_cast<std::size_t>(p.m * p.n) * 4, std::byte{0x5a}), y = x;
      const Matrix got = dense(x.data(), type, p.m, p.n), whole = dense(y.data(), type, p.m, p.n);
      ASSERT_TRUE(reference_dequantise(p.sums(), d, p.row_scale, got, 3).ok());
      ASSERT_TRUE(
          reference_gemm_dequant({p.a(), p.b(), p.layout, p.bias, d, p.row_scale}, whole).ok());
      EXPECT_EQ(compare(got, whole)->different, 0) << name(type);
    }
  }
}

}  // namespace
}  // namespace tandem
