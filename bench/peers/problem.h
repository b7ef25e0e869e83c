// SPDX-License-Identifier: Apache-2.0
//
// Problem: the matrices that all peers multiply at one shape. The f32 operands are the f16 ones
// widened, so that an f32 library works on the same numbers as Tandem in f16.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "platform/page_buffer.h"
#include "tandem/matrix.h"
#include "tandem/status.h"

namespace tandem::bench {

struct Shape {
  std::int64_t m = 0, k = 0, n = 0;
  std::int64_t full_m = 0;  ///< M before it was scaled down; m when it was not

  [[nodiscard]] double operations() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  }
  [[nodiscard]] std::string text() const;  ///< "2048x2048x1024"
};

/// "MxKxN"; empty when the text is something else or a number is below 1.
[[nodiscard]] std::optional<Shape> parse_shape(const std::string& text);

/// Memory on huge pages that grows and is kept from shape to shape.
class Buffer {
 public:
  Status ensure(std::size_t bytes);
  [[nodiscard]] std::byte* data() { return memory_.data(); }
  [[nodiscard]] const std::byte* data() const { return memory_.data(); }
  [[nodiscard]] std::size_t size() const { return memory_.size(); }

 private:
  platform::PageBuffer memory_;
};

/// A is M × K, B is K × N, both dense.
struct Operands {
  ConstMatrix a, b;
};

class Problem {
 public:
  /// Floats are uniform in [-1, 1), s8 over all 256 values.
  Status make(const Shape& shape, std::span<const DType> types);
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] Operands operands(DType type) const;

 private:
  struct Pair {
    Buffer a, b;
  };
  [[nodiscard]] Pair& pair(DType type) { return pairs_[static_cast<std::size_t>(type)]; }
  Status make_type(DType type);

  Shape shape_;
  std::array<Pair, 5> pairs_;  // by DType
};

}  // namespace tandem::bench
