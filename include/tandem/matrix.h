// SPDX-License-Identifier: Apache-2.0
//
// Views of row-major matrices that the caller owns. A view is three numbers, a type and a
// pointer: it neither owns nor checks; operators check what they are given.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tandem/types.h"

namespace tandem {

/// A read-only row-major matrix: element (i, j) is `data[i * stride + j]`, counted in elements.
struct ConstMatrix {
  const void* data = nullptr;
  DType type = DType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;  ///< elements from one row to the next, at least `cols`

  [[nodiscard]] const std::byte* row(std::int64_t i) const {
    return static_cast<const std::byte*>(data) +
           static_cast<std::size_t>(i * stride) * size_of(type);
  }
};

/// A writable row-major matrix.
struct Matrix {
  void* data = nullptr;
  DType type = DType::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;

  [[nodiscard]] std::byte* row(std::int64_t i) const {
    return static_cast<std::byte*>(data) + static_cast<std::size_t>(i * stride) * size_of(type);
  }
  operator ConstMatrix() const { return {data, type, rows, cols, stride}; }
};

/// A dense view: stride equals cols.
[[nodiscard]] inline ConstMatrix dense(const void* data, DType type, std::int64_t rows,
                                       std::int64_t cols) {
  return {data, type, rows, cols, cols};
}
[[nodiscard]] inline Matrix dense(void* data, DType type, std::int64_t rows, std::int64_t cols) {
  return {data, type, rows, cols, cols};
}

}  // namespace tandem
