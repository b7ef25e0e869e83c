// SPDX-License-Identifier: Apache-2.0
//
// A random AllGather + GEMM problem with its expected result, for tests: made once before the ranks
// start, read by all of them.
#pragma once

#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "tandem/reference.h"
#include "tandem/tandem.h"

namespace tandem::testing_ranks {

struct Shape {
  std::vector<std::int64_t> rows;
  std::int64_t k = 1, n = 1;
  DType a_type = DType::f16, c_type = DType::f32;
  BLayout layout = BLayout::kn;
  std::uint64_t seed = 1;
  std::uint64_t b_seed = 2;
  [[nodiscard]] std::int64_t m() const {
    return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  }
};

/// A dense or strided matrix with its memory; the gaps and the content are poisoned at first.
class Buffer {
 public:
  Buffer() = default;
  Buffer(DType type, std::int64_t rows, std::int64_t cols, std::int64_t gap = 0)
      : bytes_(static_cast<std::size_t>(rows * (cols + gap)) * size_of(type) + 1, std::byte{0xee}),
        view_{bytes_.data(), type, rows, cols, cols + gap} {}
  [[nodiscard]] Matrix view() {
    Matrix m = view_;
    m.data = bytes_.data();
    return m;
  }
  void poison() { std::memset(bytes_.data(), 0xee, bytes_.size()); }
  /// True when no byte between the rows was written.
  [[nodiscard]] bool gaps_intact() {
    const Matrix m = view();
    const std::size_t width = static_cast<std::size_t>(m.cols) * size_of(m.type);
    const std::size_t pitch = static_cast<std::size_t>(m.stride) * size_of(m.type);
    for (std::int64_t i = 0; i < m.rows; ++i) {
      for (std::size_t b = width; b < pitch; ++b) {
        if (m.row(i)[b] != std::byte{0xee}) return false;
      }
    }
    return bytes_.back() == std::byte{0xee};
  }

 private:
  std::vector<std::byte> bytes_;
  Matrix view_;
};

class Problem {
 public:
  explicit Problem(Shape shape)
      : shape_(std::move(shape)),
        a_(shape_.a_type, shape_.m(), shape_.k),
        b_(shape_.a_type, kn() ? shape_.k : shape_.n, kn() ? shape_.n : shape_.k, 3),
        c_(shape_.c_type, shape_.m(), shape_.n) {
    fill_random(a_.view(), shape_.seed);
    fill_random(b_.view(), shape_.b_seed);
    const Status status = reference_gemm(a_.view(), b_.view(), shape_.layout, c_.view());
    EXPECT_TRUE(status.ok()) << status.message();
  }

  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] Matrix a() { return a_.view(); }
  [[nodiscard]] ConstMatrix a(int rank) {
    const std::int64_t row0 =
        std::accumulate(shape_.rows.begin(), shape_.rows.begin() + rank, std::int64_t{0});
    const Matrix all = a_.view();
    return {all.row(row0), all.type, shape_.rows[static_cast<std::size_t>(rank)], all.cols,
            all.stride};
  }
  [[nodiscard]] ConstMatrix b() { return b_.view(); }
  [[nodiscard]] ConstMatrix c() { return c_.view(); }

  [[nodiscard]] Result<PackedWeights> weights(const std::string& kernel = "auto") {
    return PackedWeights::pack(b(), {.layout = shape_.layout, .kernel = kernel});
  }
  /// Expects every bit of `got` to be right.
  void expect_equal(ConstMatrix got) {
    auto comparison = compare(got, c());
    ASSERT_TRUE(comparison.ok()) << comparison.status().message();
    EXPECT_TRUE(comparison->equal()) << comparison->text();
  }

 private:
  [[nodiscard]] bool kn() const { return shape_.layout == BLayout::kn; }
  Shape shape_;
  Buffer a_, b_, c_;
};

}  // namespace tandem::testing_ranks
