// SPDX-License-Identifier: Apache-2.0
//
// quantise_row(), the scalar definition. Kernels have it in vectors.
#include <algorithm>

#include "tile/dequantise.h"

namespace tandem::tile {

float quantise_row(DType type, const std::byte* from, std::int64_t count, std::int8_t* to) {
  std::uint32_t largest = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    largest = std::max(largest, magnitude_bits(type, from, k));
  }
  const float scale = quantisation_scale(largest);
  for (std::int64_t k = 0; k < count; ++k) {
    to[k] = scale > 0 ? quantised(type, from, k, scale) : std::int8_t{0};
  }
  return scale;
}

}  // namespace tandem::tile
