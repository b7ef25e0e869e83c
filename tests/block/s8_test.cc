// SPDX-License-Identifier: Apache-2.0
//
// The s8 multiply and its epilogue, for every s8 kernel of the table that this CPU runs: exact sums
// against 64-bit integers on full-range data around every edge, and outputs equal to the scalar
// definitions of tile/dequantise.h.
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "block/multiply.h"
#include "platform/topology.h"
#include "tests/tile/elements.h"
#include "tile/dequantise.h"

namespace tandem::block {
namespace {

using tandem::testing::PoisonedBytes;

struct Shape {
  std::int64_t m, n, k;
  BLayout layout;
};

class S8 : public ::testing::TestWithParam<tile::Kernel> {
 protected:
  void SetUp() override {
    std::string why;
    if (!GetParam().runs_on(platform::cpu_features(), &why)) GTEST_SKIP() << why;
  }

  /// Accumulators of one block as plain s32, row-major, the kernel's offset taken back.
  std::vector<std::int32_t> multiply(const Shape& s, const std::vector<std::int8_t>& a,
                                     const std::vector<std::int8_t>& b) {
    const tile::Kernel& kernel = GetParam();
    PackedB packed{.kernel = &kernel, .k = s.k, .n = s.n};
    PoisonedBytes b_memory(packed.bytes());
    packed.data = b_memory.data();
    const bool kn = s.layout == BLayout::kn;
    const ConstMatrix b_view{b.data(), DType::s8, kn ? s.k : s.n, kn ? s.n : s.k, kn ? s.n : s.k};
    pack_b(b_view, s.layout, 0, packed.panels(), packed);

    const Blocking blocking{.mc = (s.m + kernel.mr) / kernel.mr * kernel.mr,
                            .nc = packed.panels() * kernel.nr};
    PoisonedBytes packed_a(packed_a_bytes(kernel, blocking)),
        sums(accumulator_bytes(kernel, blocking));
    std::vector<const std::byte*> rows;
    for (std::int64_t i = 0; i < s.m; ++i) {
      rows.push_back(reinterpret_cast<const std::byte*>(a.data() + i * s.k));
    }
    std::vector<std::int32_t> offset(static_cast<std::size_t>(blocking.nc), 0);
    for (std::int64_t j = 0; j < s.n; ++j) {
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < s.k; ++k) {
        sum += b[static_cast<std::size_t>(kn ? k * s.n + j : j * s.k + k)];
      }
      offset[static_cast<std::size_t>(j)] = static_cast<std::int32_t>(-kernel.a_offset * sum);
    }
    std::vector<std::int32_t> result(static_cast<std::size_t>(s.m * s.n), 0x5a5a5a5a);
    const Dequantisation factors{.bias = offset.data()};
    const Epilogue epilogue{.c = dense(result.data(), DType::s32, s.m, s.n), .factors = &factors};
    // Any part of a K-block may be a step, as it is when the rest has not arrived.
    for (std::int64_t k0 = 0, kc = 0; k0 < s.k; k0 += kc) {
      kc = std::min(kernel.kc - k0 % kernel.kc, s.k - k0);
      if (kc > tile::kKc && cut_) kc = tile::kKc;
      pack_a(kernel, rows.data(), s.m, k0, kc, packed_a.data());
      block::multiply(packed, packed_a.data(),
                      {.rows = s.m, .k0 = k0, .kc = kc, .col0 = 0, .cols = s.n}, sums.data(),
                      epilogue);
    }
    return result;
  }

  bool cut_ = false;  ///< K-blocks in parts
};

TEST_P(S8, SumsAreExactAroundEveryEdge) {
  const tile::Kernel& kernel = GetParam();
  std::mt19937 random(8);
  for (std::int64_t m : {1, kernel.mr - 1, kernel.mr, kernel.mr + 1, 3 * kernel.mr + 2}) {
    for (std::int64_t n : {1, kernel.nr - 1, kernel.nr, kernel.nr + 1, 2 * kernel.nr + 5}) {
      for (std::int64_t k : {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{4},
                             std::int64_t{5}, std::int64_t{63}, std::int64_t{64}, std::int64_t{65},
                             std::int64_t{255}, std::int64_t{256}, std::int64_t{257},
                             std::int64_t{515}, kernel.kc - 1, kernel.kc + 1, kernel.kc + 261}) {
        if (k > 600 && m + n > kernel.mr + kernel.nr + 2) continue;
        if (m < 1) continue;
        const Shape s{m, n, k, random() % 2 == 0 ? BLayout::kn : BLayout::nk};
        const bool kn = s.layout == BLayout::kn;
        std::vector<std::int8_t> a(static_cast<std::size_t>(m * k)),
            b(static_cast<std::size_t>(k * n));
        for (auto& x : a) x = static_cast<std::int8_t>(random());
        for (auto& x : b) x = static_cast<std::int8_t>(random());
        cut_ = random() % 2 == 0;
        const auto got = multiply(s, a, b);
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            std::int64_t sum = 0;
            for (std::int64_t kk = 0; kk < k; ++kk) {
              sum += std::int64_t{a[static_cast<std::size_t>(i * k + kk)]} *
                     b[static_cast<std::size_t>(kn ? kk * n + j : j * k + kk)];
            }
            ASSERT_EQ(got[static_cast<std::size_t>(i * n + j)], sum)
                << m << " x " << n << " x " << k << " at " << i << ", " << j;
          }
        }
      }
    }
  }
}

TEST_P(S8, TheLowestBytesThroughoutDoNotSaturate) {
  const Shape s{GetParam().mr + 1, GetParam().nr + 1, 700, BLayout::kn};
  const std::vector<std::int8_t> a(static_cast<std::size_t>(s.m * s.k), -128);
  const std::vector<std::int8_t> b(static_cast<std::size_t>(s.k * s.n), -128);
  for (std::int32_t sum : multiply(s, a, b)) ASSERT_EQ(sum, 128 * 128 * 700);
}

TEST_P(S8, TheEpilogueEqualsItsScalarDefinition) {
  const tile::Kernel& kernel = GetParam();
  std::mt19937 random(9);
  const int n = kernel.nr;
  PoisonedBytes tile(kernel.tile_bytes());
  auto* sums = reinterpret_cast<std::int32_t*>(tile.data());
  for (int i = 0; i < kernel.mr * n; ++i) {
    // All magnitudes: sums near zero, and near both ends of s32.
    sums[i] = static_cast<std::int32_t>(random()) >> (random() % 31);
  }
  const auto reals = [&](float size) {
    std::vector<float> values(static_cast<std::size_t>(n));
    for (auto& x : values) {
      x = std::ldexp(static_cast<float>(static_cast<int>(random())) * size,
                     static_cast<int>(random() % 40) - 20);
    }
    values[0] = 0;
    values[static_cast<std::size_t>(n) / 2] = std::numeric_limits<float>::quiet_NaN();
    values[static_cast<std::size_t>(n) - 1] = -std::numeric_limits<float>::infinity();
    return values;
  };
  const auto scale = reals(1e-12F), requantise = reals(1e-9F);
  std::vector<std::int32_t> bias(static_cast<std::size_t>(n));
  for (auto& x : bias) x = static_cast<std::int32_t>(random());
  const std::vector<float> row_scale(static_cast<std::size_t>(kernel.mr), 0.37F);

  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::s8, DType::s32}) {
    for (int cols : {1, n / 2 + 1, n - 1, n}) {
      for (bool saturate : {false, true}) {
        for (const float* rows : {static_cast<const float*>(nullptr), row_scale.data()}) {
          const tile::Dequantisation factors{bias.data(), scale.data(), requantise.data(),
                                             saturate};
          const std::size_t pitch = static_cast<std::size_t>(n) * 4 + 4;
          std::vector<std::byte> got(static_cast<std::size_t>(kernel.mr) * pitch, std::byte{0xee});
          std::vector<std::byte> expected = got;
          kernel.dequantise(tile.data(), kernel.mr, cols, factors, rows, type, got.data(),
                            static_cast<std::int64_t>(pitch));
          for (int r = 0; r < kernel.mr; ++r) {
            for (int j = 0; j < cols; ++j) {
              const std::size_t at =
                  static_cast<std::size_t>(r) * pitch + static_cast<std::size_t>(j) * size_of(type);
              tile::dequantise_element(
                  tile::wrapping_add(sums[r * n + j], bias[static_cast<std::size_t>(j)]), factors,
                  j, rows == nullptr ? nullptr : rows + r, type, expected.data() + at);
              if (std::memcmp(&got[at], &expected[at], size_of(type)) == 0) continue;
              // Any NaN equals any NaN.
              ASSERT_NE(type, DType::s8);
              ASSERT_NE(type, DType::s32);
              ASSERT_TRUE(std::isnan(base::load_element(type, &got[at])) &&
                          std::isnan(base::load_element(type, &expected[at])))
                  << name(type) << " row " << r << " column " << j;
              std::memcpy(&got[at], &expected[at], size_of(type));
            }
          }
          ASSERT_EQ(got, expected) << "bytes outside the block were written";
        }
      }
    }
  }
}

TEST_P(S8, QuantisationEqualsItsScalarDefinition) {
  const tile::Kernel& kernel = GetParam();
  std::mt19937 random(10);
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    const std::size_t bytes = size_of(type);
    for (const std::int64_t count : {1, 7, 8, 15, 16, 17, 31, 33, 64, 257}) {
      for (int kind = 0; kind < 60; ++kind) {
        std::vector<std::byte> row(static_cast<std::size_t>(count) * bytes + 1);
        for (std::int64_t k = 0; k < count; ++k) {
          float x = std::ldexp(static_cast<float>(static_cast<int>(random())) * 0x1p-31F,
                               static_cast<int>(random() % 8) - 4);
          if (kind % 6 == 0) x = std::ldexp(x, -130);            // subnormal, also the scale
          if (kind % 6 == 1) x = std::round(x * 127.0F) * 0.5F;  // ties
          if (kind % 6 == 2) x = kind < 30 ? 0.0F : -0.0F;
          if (kind % 6 == 3 && random() % 64 == 0) x = std::numeric_limits<float>::infinity();
          if (kind % 6 == 4 && random() % 64 == 0) x = std::nanf("");
          if (kind >= 48) {
            // Multiples of 2^-149, up to where the scale is its floor and beyond.
            const int most = kind < 54 ? 63 : 300;
            x = static_cast<float>(static_cast<int>(random() % 127) % (most + 1)) * 0x1p-149F;
            if (random() % 2 == 0) x = -x;
          }
          base::store_element(type, x, row.data() + 1 + static_cast<std::size_t>(k) * bytes);
        }
        std::vector<std::int8_t> got(static_cast<std::size_t>(count) + 1, 99), expected = got;
        const float scale = kernel.quantise(type, row.data() + 1, count, got.data());
        const float right = tile::quantise_row(type, row.data() + 1, count, expected.data());
        ASSERT_TRUE(std::isnan(right) ? std::isnan(scale) : scale == right)
            << name(type) << " " << count << ": " << scale << " for " << right;
        ASSERT_EQ(got, expected) << name(type) << " " << count << " kind " << kind;
        ASSERT_NE(right, 0.0F);
        if (right != std::numeric_limits<float>::denorm_min()) continue;
        for (std::int64_t k = 0; k < count; ++k) {
          const float x =
              base::load_element(type, row.data() + 1 + static_cast<std::size_t>(k) * bytes);
          if (std::abs(x) > 63 * right) continue;
          ASSERT_EQ(static_cast<float>(got[static_cast<std::size_t>(k)]) * right, x) << "not exact";
        }
      }
    }
  }
}

std::vector<tile::Kernel> s8_kernels() {
  std::vector<tile::Kernel> result;
  for (const tile::Kernel& kernel : tile::kernel_table()) {
    if (kernel.type == DType::s8) result.push_back(kernel);
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(Table, S8, ::testing::ValuesIn(s8_kernels()),
                         [](const auto& param) { return std::string(param.param.target); });

}  // namespace
}  // namespace tandem::block
