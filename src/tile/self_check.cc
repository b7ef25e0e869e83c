// SPDX-License-Identifier: Apache-2.0
//
// The same small problem through two kernels. Start reading at self_check().
#include "tile/self_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/aligned_bytes.h"
#include "base/element.h"
#include "base/float_environment.h"

namespace tandem::tile {
namespace {

/// A × B, of more than a panel, with an odd depth.
struct Problem {
  std::int64_t m, n, k;
  DType type;
  BLayout layout;
  std::vector<std::byte> a, b;          // dense
  std::vector<std::int32_t> bias;       // s8
  std::vector<float> scale, row_scale;  // s8
};

/// Marsaglia's xorshift64 ("Xorshift RNGs", 2003): the same problem in every process.
class Random {
 public:
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    return state_ ^= state_ << 17;
  }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15U;
};

/// An element of all of its type: of s8 often an extreme, of floats now and then a zero, a
/// subnormal, or what makes sums fall below the smallest normal; infinities and NaN rarely.
void draw(DType type, Random& random, std::byte* to) {
  const std::uint64_t bits = random.next();
  const auto kind = static_cast<unsigned>(bits % 32);
  if (type == DType::s8) {
    const std::uint8_t byte = kind < 4   ? 0x80
                              : kind < 8 ? 0x7f
                                         : static_cast<std::uint8_t>(bits >> 40);
    *to = static_cast<std::byte>(byte);
    return;
  }
  // By way of f32 for all float types: sign, exponent and mantissa drawn apart.
  std::uint32_t exponent = 120 + static_cast<std::uint32_t>(bits >> 8) % 12;
  if (kind < 3) exponent = 0;
  if (kind >= 3 && kind < 6) exponent = 63 + static_cast<std::uint32_t>(bits >> 8) % 3;
  if (kind == 6 && (bits >> 16) % 16 == 0) exponent = 255;
  const std::uint32_t word = static_cast<std::uint32_t>(bits >> 63) << 31 | exponent << 23 |
                             (static_cast<std::uint32_t>(bits >> 32) & 0x7fffffU);
  base::store_element(type, std::bit_cast<float>(word), to);
}

Problem make_problem(const Kernel& kernel, std::int64_t k, BLayout layout) {
  Problem p{.m = kernel.mr,
            .n = kernel.nr + 1,
            .k = k,
            .type = kernel.type,
            .layout = layout,
            .a = {},
            .b = {},
            .bias = {},
            .scale = {},
            .row_scale = {}};
  const std::size_t size = size_of(p.type);
  p.a.resize(static_cast<std::size_t>(p.m * p.k) * size);
  p.b.resize(static_cast<std::size_t>(p.k * p.n) * size);
  Random random;
  for (std::size_t at = 0; at < p.a.size(); at += size) draw(p.type, random, &p.a[at]);
  for (std::size_t at = 0; at < p.b.size(); at += size) draw(p.type, random, &p.b[at]);
  for (std::int64_t i = 0; i < p.m; ++i) p.row_scale.push_back(0.5F + static_cast<float>(i) / 7);
  for (std::int64_t j = 0; j < p.n; ++j) {
    p.bias.push_back(static_cast<std::int32_t>(random.next() >> 44));
    p.scale.push_back(1 / (3.0F + static_cast<float>(j)));
  }
  return p;
}

std::int64_t b_index(const Problem& p, std::int64_t k, std::int64_t j) {
  return p.layout == BLayout::kn ? k * p.n + j : j * p.k + k;
}

/// The bias of a panel's columns, less what the kernel's offset of A adds to their sums.
std::vector<std::int32_t> panel_bias(const Kernel& kernel, const Problem& p, std::int64_t col0,
                                     int cols) {
  std::vector<std::int32_t> bias(static_cast<std::size_t>(kernel.nr));
  for (int j = 0; j < cols; ++j) {
    std::int32_t sum = 0;
    for (std::int64_t k = 0; k < p.k; ++k) {
      sum += static_cast<std::int8_t>(p.b[static_cast<std::size_t>(b_index(p, k, col0 + j))]);
    }
    // Every block of K is multiplied twice.
    bias[static_cast<std::size_t>(j)] =
        p.bias[static_cast<std::size_t>(col0 + j)] - 2 * kernel.a_offset * sum;
  }
  return bias;
}

/// C in `type`, m × n, of the block of K taken twice: once to begin the sums and once to go on.
std::vector<std::byte> product(const Kernel& kernel, const Problem& p, DType type) {
  const std::size_t size = size_of(p.type), c_size = size_of(type);
  const auto a_panel =
      base::make_aligned(static_cast<std::size_t>(kernel.mr * kernel.kc) * kernel.a_bytes);
  const auto b_panel =
      base::make_aligned(static_cast<std::size_t>(kernel.padded(p.k) * kernel.nr) * kernel.b_bytes);
  const auto tile = base::make_aligned(kernel.tile_bytes());
  std::vector<std::byte> c(static_cast<std::size_t>(p.m * p.n) * c_size);
  const auto pitch = p.n * static_cast<std::int64_t>(c_size);
  const base::SubnormalsFlushed mode(kernel.flushes);
  for (std::int64_t row0 = 0; row0 < p.m; row0 += kernel.mr) {
    const int rows = static_cast<int>(std::min<std::int64_t>(kernel.mr, p.m - row0));
    std::vector<const std::byte*> pointers;
    for (int i = 0; i < rows; ++i) {
      pointers.push_back(p.a.data() + static_cast<std::size_t>((row0 + i) * p.k) * size);
    }
    kernel.pack_a(pointers.data(), rows, p.k, a_panel.get());
    for (std::int64_t col0 = 0; col0 < p.n; col0 += kernel.nr) {
      const int cols = static_cast<int>(std::min<std::int64_t>(kernel.nr, p.n - col0));
      const bool kn = p.layout == BLayout::kn;
      const std::int64_t from = kn ? col0 : col0 * p.k;
      kernel.pack_b(p.b.data() + static_cast<std::size_t>(from) * size, kn ? p.n : p.k, p.layout,
                    p.k, cols, b_panel.get());
      for (const bool first : {true, false}) {
        kernel.multiply(p.k, a_panel.get(), b_panel.get(), tile.get(), rows, first, {});
      }
      std::byte* const to = c.data() + static_cast<std::size_t>(row0 * p.n + col0) * c_size;
      if (kernel.accumulator == DType::f32) {
        kernel.store(tile.get(), rows, cols, type, to, pitch);
        continue;
      }
      const auto bias = panel_bias(kernel, p, col0, cols);
      std::vector<float> scale(static_cast<std::size_t>(kernel.nr), 1.0F);
      std::copy_n(p.scale.begin() + col0, cols, scale.begin());
      const Dequantisation factors{
          .bias = bias.data(), .scale = scale.data(), .requantise = scale.data()};
      kernel.dequantise(tile.get(), rows, cols, factors,
                        type == DType::s32 ? nullptr : p.row_scale.data() + row0, type, to, pitch);
    }
  }
  return c;
}

Status compare(const Kernel& kernel, const Problem& p, DType type,
               const std::vector<std::byte>& got, const std::vector<std::byte>& wanted) {
  const std::size_t size = size_of(type);
  for (std::size_t at = 0; at < wanted.size(); at += size) {
    if (std::memcmp(&got[at], &wanted[at], size) == 0) continue;
    const double is = base::value_of(type, &got[at]), should = base::value_of(type, &wanted[at]);
    if (std::isnan(is) && std::isnan(should)) continue;  // of any payload
    const auto index = static_cast<std::int64_t>(at / size);
    return {
        StatusCode::kUnsupported,
        fmt::format("kernel '{}' of {} is wrong on this CPU: its self-check of {} x {} x {} gave "
                    "{} for element ({}, {}) in {}, and the scalar kernel {}",
                    kernel.target, name(kernel.type), p.m, p.k, p.n, is, index / p.n, index % p.n,
                    name(type), should)};
  }
  return {};
}

Status check_problem(const Kernel& kernel, std::int64_t k, BLayout layout) {
  constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16};
  constexpr DType kAll[] = {DType::s32, DType::f32, DType::f16, DType::bf16, DType::s8};
  const Problem p = make_problem(kernel, k, layout);
  const std::span<const DType> types =
      kernel.accumulator == DType::f32 ? std::span<const DType>(kFloats) : kAll;
  const Kernel& scalar = **select_kernel(kernel.type, "scalar", {});
  for (const DType type : types) {
    Status s = compare(kernel, p, type, product(kernel, p, type), product(scalar, p, type));
    if (!s.ok()) return s;
  }
  return {};
}

}  // namespace

Status self_check(const Kernel& kernel) {
  // One step; an odd number that is no multiple of any group.
  for (const std::int64_t k : {1, 37}) {
    const BLayout layout = k == 1 ? BLayout::kn : BLayout::nk;
    if (Status s = check_problem(kernel, k, layout); !s.ok()) return s;
  }
  return {};
}

Status self_check_once(const Kernel& kernel) {
  static std::mutex mutex;
  static std::vector<std::optional<Status>> verdicts(kernel_table().size());
  const std::lock_guard lock(mutex);
  auto& verdict = verdicts[static_cast<std::size_t>(&kernel - kernel_table().data())];
  if (!verdict) verdict = self_check(kernel);
  return *verdict;
}

}  // namespace tandem::tile
