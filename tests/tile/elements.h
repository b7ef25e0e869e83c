// SPDX-License-Identifier: Apache-2.0
//
// Inputs for the tests of tile/ and block/: random elements of the whole range that a type has,
// from subnormals up, so that a wrong order, a lost sign or a flushed subnormal shows; and memory
// that is poisoned first, so that an element nobody wrote shows as well.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <random>
#include <vector>

#include "base/element.h"
#include "base/flushed.h"
#include "tandem/types.h"
#include "tile/kernel.h"

namespace tandem::testing {

/// 64-byte aligned bytes, all 0xff: a NaN in every float type.
class PoisonedBytes {
 public:
  explicit PoisonedBytes(std::size_t size)
      : size_(size), data_(new (std::align_val_t(64)) std::byte[size]) {
    std::memset(data_, 0xff, size);
  }
  ~PoisonedBytes() { ::operator delete[](data_, std::align_val_t(64)); }
  PoisonedBytes(const PoisonedBytes&) = delete;
  PoisonedBytes& operator=(const PoisonedBytes&) = delete;

  [[nodiscard]] std::byte* data() { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] float f32(std::int64_t index) const {
    return base::load_element(DType::f32, data_ + static_cast<std::size_t>(index) * sizeof(float));
  }

 private:
  std::size_t size_;
  std::byte* data_;
};

/// `count` finite elements: random sign, exponent and mantissa. One in eight is subnormal or zero.
/// Exponents of f32 and bf16 stay within 2^±30, so that sums of products stay finite.
inline std::vector<std::byte> random_elements(DType type, std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::size_t bytes = size_of(type);
  std::vector<std::byte> out(static_cast<std::size_t>(count) * bytes);
  for (std::byte* to = out.data(); to != out.data() + out.size(); to += bytes) {
    const std::uint64_t draw = random();
    const bool tiny = draw % 8 == 0;
    const auto sign = static_cast<std::uint32_t>(draw >> 63) << 31;
    if (type == DType::f16) {
      const auto exponent = tiny ? 0u : static_cast<std::uint32_t>(draw >> 8) % 31u;
      const auto half = static_cast<std::uint16_t>(
          (sign >> 16) | (exponent << 10) | (static_cast<std::uint32_t>(draw >> 32) & 0x3ff));
      std::memcpy(to, &half, sizeof(half));
    } else {
      const auto exponent = tiny ? 0u : 97u + static_cast<std::uint32_t>(draw >> 8) % 61u;
      const std::uint32_t word =
          sign | (exponent << 23) | (static_cast<std::uint32_t>(draw >> 32) & 0x7fffff);
      const auto upper = static_cast<std::uint16_t>(word >> 16);
      if (type == DType::bf16) {
        std::memcpy(to, &upper, sizeof(upper));
      } else {
        std::memcpy(to, &word, sizeof(word));
      }
    }
  }
  return out;
}

/// The rows of the kernel table whose products are floats.
inline std::vector<tile::Kernel> float_kernels() {
  std::vector<tile::Kernel> kernels;
  for (const tile::Kernel& kernel : tile::kernel_table()) {
    if (kernel.accumulator == DType::f32) kernels.push_back(kernel);
  }
  return kernels;
}

inline float element(const std::vector<std::byte>& elements, DType type, std::int64_t index) {
  return base::load_element(type,
                            elements.data() + static_cast<std::size_t>(index) * size_of(type));
}

/// The contract's sum of one K-block, from functions of k in 0..steps: see docs/numerics.md.
template <class A, class B>
float chain(DType type, std::int64_t steps, const A& a, const B& b) {
  float sum = 0;
  if (type != DType::bf16) {
    for (std::int64_t k = 0; k < steps; ++k) sum = std::fma(a(k), b(k), sum);
    return sum;
  }
  for (std::int64_t k = 0; k < steps; k += 2) {
    for (const std::int64_t step : {k + 1, k}) {
      const bool there = step < steps;
      sum = base::fma_flushed(there ? base::flushed(a(step)) : 0.0f,
                              there ? base::flushed(b(step)) : 0.0f, sum);
    }
  }
  return sum;
}

/// How the contract adds the sum of a block to those before it.
inline float add_block(DType type, float total, float sum) {
  return type == DType::bf16 ? base::add_flushed(total, sum) : total + sum;
}

/// Equal bits, or both NaN: payloads are not part of the contract.
inline bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

}  // namespace tandem::testing
