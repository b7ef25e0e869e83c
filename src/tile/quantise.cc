// SPDX-License-Identifier: Apache-2.0
//
// quantise_row(): two passes over a row, which the communication engine makes as it sends.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tile/dequantise.h"

namespace tandem::tile {
namespace {

template <DType type>
float quantise(const std::byte* from, std::int64_t count, std::int8_t* to) {
  const auto element = [from](std::int64_t k) {
    return base::load_element(type, from + static_cast<std::size_t>(k) * size_of(type));
  };
  // As integers, so that NaN and infinity come out on top, and the loop is a plain maximum.
  std::uint32_t largest = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    largest = std::max(largest, std::bit_cast<std::uint32_t>(element(k)) & 0x7fffffffu);
  }
  if (largest >= 0x7f800000u) {
    std::fill_n(to, count, std::int8_t{0});
    return std::numeric_limits<float>::quiet_NaN();
  }
  if (largest == 0) {
    std::fill_n(to, count, std::int8_t{0});
    return 1.0F;
  }
  const float scale = std::bit_cast<float>(largest) / 127.0F;
  // |x / scale| may round to a little above 127 where scale is subnormal.
  for (std::int64_t k = 0; k < count; ++k) {
    const float q = std::nearbyint(element(k) / scale);
    to[k] = static_cast<std::int8_t>(std::min(std::max(q, -127.0F), 127.0F));
  }
  return scale;
}

}  // namespace

float quantise_row(DType type, const std::byte* from, std::int64_t count, std::int8_t* to) {
  switch (type) {
    case DType::f16:
      return quantise<DType::f16>(from, count, to);
    case DType::bf16:
      return quantise<DType::bf16>(from, count, to);
    default:
      return quantise<DType::f32>(from, count, to);
  }
}

}  // namespace tandem::tile
