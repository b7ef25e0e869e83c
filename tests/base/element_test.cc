// SPDX-License-Identifier: Apache-2.0
//
// base/element.h against definitions of its own: widening from the meaning of the bits, narrowing
// from "the nearest of the two neighbours, the even one on a tie". All 65,536 patterns, and the
// points halfway between neighbours, where rounding errors hide.
#include "base/element.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace tandem::base {
namespace {

struct Format {
  int exponent_bits, mantissa_bits;
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(float);
  DType type;
};
constexpr Format kF16{5, 10, widen_f16, narrow_f16, DType::f16};
constexpr Format kBf16{8, 7, widen_bf16, narrow_bf16, DType::bf16};

/// The number that a pattern means, by IEEE 754's definition, in double.
double meaning(const Format& format, std::uint16_t bits) {
  const int exponent = (bits >> format.mantissa_bits) & ((1 << format.exponent_bits) - 1);
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  return sign *
         std::ldexp(mantissa + (1 << format.mantissa_bits), exponent - bias - format.mantissa_bits);
}

class ElementTest : public ::testing::TestWithParam<Format> {};

TEST_P(ElementTest, WidensEveryPattern) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const double expected = meaning(GetParam(), pattern);
    const float got = GetParam().widen(pattern);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint64_t>(expected),
                std::bit_cast<std::uint64_t>(static_cast<double>(got)))
          << bits;
    }
  }
}

TEST_P(ElementTest, NarrowsEveryPatternBack) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float value = GetParam().widen(pattern);
    const std::uint16_t back = GetParam().narrow(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(GetParam().widen(back))) << bits;
    } else {
      ASSERT_EQ(back, pattern);
    }
  }
}

TEST_P(ElementTest, RoundsToNearestEvenBetweenNeighbours) {
  const Format& format = GetParam();
  const int infinity = ((1 << format.exponent_bits) - 1) << format.mantissa_bits;
  for (int bits = 0; bits < infinity; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
    const double below = meaning(format, low);
    // Past the largest finite number, rounding goes by the next step of the same size.
    const double above =
        bits + 1 == infinity
            ? below + (below - meaning(format, static_cast<std::uint16_t>(bits - 1)))
            : meaning(format, high);
    const float middle = static_cast<float>((below + above) / 2);
    ASSERT_EQ(static_cast<double>(middle), (below + above) / 2) << "not a tie in f32: " << bits;
    const float under = std::nextafter(middle, 0.0f);
    const float over = std::nextafter(middle, std::numeric_limits<float>::infinity());
    ASSERT_EQ(format.narrow(under), low);
    ASSERT_EQ(format.narrow(middle), bits % 2 == 0 ? low : high);
    ASSERT_EQ(format.narrow(over), high);
    ASSERT_EQ(format.narrow(-under), low | 0x8000);
    ASSERT_EQ(format.narrow(-middle), (bits % 2 == 0 ? low : high) | 0x8000);
    ASSERT_EQ(format.narrow(-over), high | 0x8000);
  }
}

TEST_P(ElementTest, NarrowsExtremes) {
  const Format& format = GetParam();
  const int infinity = ((1 << format.exponent_bits) - 1) << format.mantissa_bits;
  EXPECT_EQ(format.narrow(std::numeric_limits<float>::infinity()), infinity);
  EXPECT_EQ(format.narrow(-std::numeric_limits<float>::infinity()), infinity | 0x8000);
  EXPECT_EQ(format.narrow(std::numeric_limits<float>::max()), infinity);
  EXPECT_EQ(format.narrow(0.0f), 0);
  EXPECT_EQ(format.narrow(-0.0f), 0x8000);
  // A signalling NaN whose payload lies below the kept bits must not become infinity.
  for (const std::uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffc00000u}) {
    EXPECT_TRUE(std::isnan(format.widen(format.narrow(std::bit_cast<float>(nan))))) << nan;
  }
}

TEST_P(ElementTest, LoadsAndStoresUnaligned) {
  std::byte buffer[9] = {};
  for (const DType type : {DType::f32, GetParam().type}) {
    store_element(type, -1.5f, buffer + 1);
    EXPECT_EQ(load_element(type, buffer + 1), -1.5f);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ElementTest, ::testing::Values(kF16, kBf16),
                         [](const auto& param) { return std::string(name(param.param.type)); });

}  // namespace
}  // namespace tandem::base
