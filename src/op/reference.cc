// SPDX-License-Identifier: Apache-2.0
//
// What results are checked against: reproducible inputs, the contract's multiply in plain loops,
// and a comparison of bits. It shares nothing with tile/ and block/ but the contract's constant,
// so that an error there cannot hide here. The one loop that takes time is compiled a second time
// with FMA instructions, for CPUs that have them; the bits are the same. Start reading at
// multiply_rows().
#include "tandem/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/element.h"
#include "base/flushed.h"
#include "base/guarded.h"
#include "op/parallel.h"
#include "op/validate.h"
#include "platform/topology.h"
#include "tile/contract.h"

namespace tandem {
namespace {

// Columns summed together: their sums stay in registers (8 vectors of AVX2; 49 of 57 GFLOP/s peak
// with gcc 12 on one Zen 4 core, where 32 columns reach 22).
constexpr int kStrip = 64;
// Rows of A widened together: amortises widening B without holding all of A in f32.
constexpr std::int64_t kRowBlock = 64;

/// totals (+)= a × b over one K-block: `rows` rows of A in f32, `k` apart, times kc × kStrip of B.
[[gnu::always_inline]] inline void multiply_rows(const float* a, std::int64_t rows, std::int64_t k,
                                                 const float* b, std::int64_t kc, float* totals,
                                                 bool first) {
  for (std::int64_t i = 0; i < rows; ++i, a += k, totals += kStrip) {
    float sums[kStrip] = {};
    for (std::int64_t kk = 0; kk < kc; ++kk) {
      for (int j = 0; j < kStrip; ++j) sums[j] = std::fma(a[kk], b[kk * kStrip + j], sums[j]);
    }
    for (int j = 0; j < kStrip; ++j) totals[j] = first ? sums[j] : totals[j] + sums[j];
  }
}

/// The same for bf16, by pairs of steps of k, the odd one first. Subnormals were flushed in A and
/// B.
[[gnu::always_inline]] inline void multiply_pairs(const float* a, std::int64_t rows, std::int64_t k,
                                                  const float* b, std::int64_t kc, float* totals,
                                                  bool first) {
  constexpr float kNone[kStrip] = {};  // the odd step of a last pair
  for (std::int64_t i = 0; i < rows; ++i, a += k, totals += kStrip) {
    float sums[kStrip] = {};
    for (std::int64_t kk = 0; kk < kc; kk += 2) {
      for (std::int64_t step : {kk + 1, kk}) {
        const float x = step < kc ? a[step] : 0.0f;
        const float* const y = step < kc ? b + step * kStrip : kNone;
        float next[kStrip];
        for (int j = 0; j < kStrip; ++j) next[j] = std::fma(x, y[j], sums[j]);
        std::uint32_t tiny = 0;  // a mask, which compilers gather in vectors
        for (int j = 0; j < kStrip; ++j) tiny |= base::is_tiny(next[j]) ? ~0u : 0u;
        for (int j = 0; tiny != 0 && j < kStrip; ++j) {
          if (base::is_tiny(next[j])) next[j] = base::flush_tiny(x, y[j], sums[j], next[j]);
        }
        std::memcpy(sums, next, sizeof sums);
      }
    }
    for (int j = 0; j < kStrip; ++j) {
      totals[j] = first ? sums[j] : base::add_flushed(totals[j], sums[j]);
    }
  }
}

using MultiplyRows = void (*)(const float*, std::int64_t, std::int64_t, const float*, std::int64_t,
                              float*, bool);

/// Compiled once as it is and once with FMA instructions.
struct Loops {
  MultiplyRows rows, pairs;
};

void multiply_rows_plain(const float* a, std::int64_t rows, std::int64_t k, const float* b,
                         std::int64_t kc, float* totals, bool first) {
  multiply_rows(a, rows, k, b, kc, totals, first);
}

void multiply_pairs_plain(const float* a, std::int64_t rows, std::int64_t k, const float* b,
                          std::int64_t kc, float* totals, bool first) {
  multiply_pairs(a, rows, k, b, kc, totals, first);
}

constexpr Loops kPlain{multiply_rows_plain, multiply_pairs_plain};

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void multiply_rows_fma(const float* a, std::int64_t rows,
                                                   std::int64_t k, const float* b, std::int64_t kc,
                                                   float* totals, bool first) {
  multiply_rows(a, rows, k, b, kc, totals, first);
}

[[gnu::target("avx2,fma")]] void multiply_pairs_fma(const float* a, std::int64_t rows,
                                                    std::int64_t k, const float* b, std::int64_t kc,
                                                    float* totals, bool first) {
  multiply_pairs(a, rows, k, b, kc, totals, first);
}

MultiplyRows pick_loop(DType type) {
  const base::CpuFeatures cpu = platform::cpu_features();
  const Loops loops = cpu.avx2 && cpu.fma ? Loops{multiply_rows_fma, multiply_pairs_fma} : kPlain;
  return type == DType::bf16 ? loops.pairs : loops.rows;
}
#else
MultiplyRows pick_loop(DType type) { return type == DType::bf16 ? kPlain.pairs : kPlain.rows; }
#endif

struct Problem {
  ConstMatrix a, b;
  BLayout layout;
  Matrix c;
  MultiplyRows multiply;
};

/// What one thread needs for blocks of `rows` rows.
struct Buffers {
  Buffers(std::int64_t rows, std::int64_t k)
      : a(static_cast<std::size_t>(rows * k)),
        b(static_cast<std::size_t>(tile::kKc * kStrip)),
        totals(static_cast<std::size_t>(rows * kStrip)) {}
  std::vector<float> a, b, totals;
};

/// As it enters products: of bf16 without subnormals.
float widened(DType type, const std::byte* from) {
  const float value = base::load_element(type, from);
  return type == DType::bf16 ? base::flushed(value) : value;
}

/// Columns [col0, col0 + kStrip) of K-block [k0, k0 + kc) of B in f32; beyond N zero.
void widen_b(const Problem& p, std::int64_t k0, std::int64_t kc, std::int64_t col0, float* out) {
  const std::int64_t cols = std::min<std::int64_t>(kStrip, p.c.cols - col0);
  const std::size_t bytes = size_of(p.b.type);
  std::fill(out, out + kc * kStrip, 0.0f);
  for (std::int64_t k = 0; k < kc; ++k) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const std::byte* from = p.layout == BLayout::kn
                                  ? p.b.row(k0 + k) + static_cast<std::size_t>(col0 + j) * bytes
                                  : p.b.row(col0 + j) + static_cast<std::size_t>(k0 + k) * bytes;
      out[k * kStrip + j] = widened(p.b.type, from);
    }
  }
}

void multiply_block(const Problem& p, std::int64_t row0, Buffers& buffers) {
  const std::int64_t k = p.a.cols, n = p.c.cols;
  const std::int64_t rows = std::min(kRowBlock, p.a.rows - row0);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::byte* from = p.a.row(row0 + i);
    float* to = buffers.a.data() + i * k;
    for (std::int64_t kk = 0; kk < k; ++kk, from += size_of(p.a.type)) {
      to[kk] = widened(p.a.type, from);
    }
  }
  for (std::int64_t col0 = 0; col0 < n; col0 += kStrip) {
    for (std::int64_t k0 = 0; k0 < k; k0 += tile::kKc) {
      const std::int64_t kc = std::min(tile::kKc, k - k0);
      widen_b(p, k0, kc, col0, buffers.b.data());
      p.multiply(buffers.a.data() + k0, rows, k, buffers.b.data(), kc, buffers.totals.data(),
                 k0 == 0);
    }
    const std::int64_t cols = std::min<std::int64_t>(kStrip, n - col0);
    for (std::int64_t i = 0; i < rows; ++i) {
      std::byte* to = p.c.row(row0 + i) + static_cast<std::size_t>(col0) * size_of(p.c.type);
      for (std::int64_t j = 0; j < cols; ++j, to += size_of(p.c.type)) {
        base::store_element(p.c.type, buffers.totals[static_cast<std::size_t>(i * kStrip + j)], to);
      }
    }
  }
}

constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32};
constexpr DType kAll[] = {DType::f16, DType::bf16, DType::f32, DType::s8, DType::s32};

Status check(const ConstMatrix& a, const ConstMatrix& b, BLayout layout, const Matrix& c,
             int threads) {
  const DType of_a[] = {a.type};
  const bool kn = layout == BLayout::kn;
  const std::int64_t k = a.cols, n = kn ? b.cols : b.rows;
  return op::first_failure(op::check_matrix("a", a, kFloats), op::check_matrix("b", b, of_a),
                           op::check_matrix("c", c, kFloats), op::check_layout(layout),
                           op::check_range("K", k, 1, std::numeric_limits<std::int64_t>::max()),
                           op::check_shape("b", b, kn ? k : n, kn ? n : k),
                           op::check_shape("c", c, a.rows, n),
                           op::check_range("threads", threads, 1, op::kMaxThreads),
                           op::check_disjoint("a", a, "c", c), op::check_disjoint("b", b, "c", c));
}

/// splitmix64's output function (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014): every bit of the result depends on every bit of x.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

template <class Store>
void fill_rows(Matrix m, std::uint64_t seed, std::int64_t row0, Store store) {
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;  // splitmix64's: odd, 2^64 / golden ratio
  for (std::int64_t i = 0; i < m.rows; ++i) {
    std::uint64_t state = mix(mix(seed + kStep) + kStep * (static_cast<std::uint64_t>(row0) +
                                                           static_cast<std::uint64_t>(i)));
    std::byte* to = m.row(i);
    for (std::int64_t j = 0; j < m.cols; ++j, to += size_of(m.type)) {
      state += kStep;
      // 24 bits: as many as f32 holds exactly in [-1, 1).
      const auto bits = static_cast<std::int32_t>(mix(state) >> 40);
      store(static_cast<float>(bits) * 0x1p-23f - 1.0f, to);
    }
  }
}

void compare_row(const ConstMatrix& got, const ConstMatrix& expected, std::int64_t i,
                 Comparison& result) {
  const std::size_t bytes = size_of(got.type);
  const std::byte* x = got.row(i);
  const std::byte* y = expected.row(i);
  if (std::memcmp(x, y, static_cast<std::size_t>(got.cols) * bytes) == 0) return;
  for (std::int64_t j = 0; j < got.cols; ++j, x += bytes, y += bytes) {
    if (std::memcmp(x, y, bytes) == 0) continue;
    const double a = base::value_of(got.type, x), b = base::value_of(got.type, y);
    if (std::isnan(a) && std::isnan(b)) continue;
    if (result.different++ == 0) {
      result.first_row = i;
      result.first_col = j;
      result.first_got = a;
      result.first_expected = b;
    }
    if (std::isfinite(a) && std::isfinite(b)) {
      result.max_abs_difference = std::max(result.max_abs_difference, std::abs(a - b));
    }
  }
}

}  // namespace

void fill_random(Matrix m, std::uint64_t seed, std::int64_t row0) {
  (void)base::guarded([&]() -> Status {
    if (Status valid = op::check_matrix("m", m, kAll); !valid.ok()) return valid;
    if (m.cols == 0) return {};
    switch (m.type) {
      case DType::f32:
        fill_rows(m, seed, row0,
                  [](float v, std::byte* to) { base::store_element(DType::f32, v, to); });
        break;
      case DType::f16:
        fill_rows(m, seed, row0,
                  [](float v, std::byte* to) { base::store_element(DType::f16, v, to); });
        break;
      case DType::bf16:
        fill_rows(m, seed, row0,
                  [](float v, std::byte* to) { base::store_element(DType::bf16, v, to); });
        break;
      case DType::s8:
        // The real's upper eight bits: -1 becomes -128, just below 1 becomes 127.
        fill_rows(m, seed, row0, [](float v, std::byte* to) {
          *to = static_cast<std::byte>(static_cast<std::int8_t>(std::floor(v * 128.0f)));
        });
        break;
      case DType::s32:
        break;
    }
    return {};
  });
}

Status reference_gemm(ConstMatrix a, ConstMatrix b, BLayout layout, Matrix c, int threads) {
  return base::guarded([&]() -> Status {
    if (Status valid = check(a, b, layout, c, threads); !valid.ok()) return valid;
    const Problem problem{a, b, layout, c, pick_loop(a.type)};
    const std::int64_t blocks = (a.rows + kRowBlock - 1) / kRowBlock;
    return op::in_parallel(blocks, threads, [&](op::Pieces& pieces) -> Status {
      std::optional<Buffers> buffers;
      while (const auto block = pieces.take()) {
        if (!buffers) buffers.emplace(std::min(kRowBlock, a.rows), a.cols);
        multiply_block(problem, *block * kRowBlock, *buffers);
      }
      return {};
    });
  });
}

std::string Comparison::text() const {
  return base::guarded_or("out of memory", [&] {
    if (equal()) return fmt::format("all {} elements equal", elements);
    return fmt::format("{} of {} elements {}, the first at ({}, {}): got {}, expected {}",
                       different, elements, different == 1 ? "differs" : "differ", first_row,
                       first_col, first_got, first_expected);
  });
}

Result<Comparison> compare(ConstMatrix got, ConstMatrix expected) {
  return base::guarded([&]() -> Result<Comparison> {
    if (got.type != expected.type || got.rows != expected.rows || got.cols != expected.cols) {
      return Status(
          StatusCode::kInvalidArgument,
          fmt::format("compare: {} {} x {} against {} {} x {}: types and shapes must match",
                      name(got.type), got.rows, got.cols, name(expected.type), expected.rows,
                      expected.cols));
    }
    Status valid = op::first_failure(op::check_matrix("got", got, kAll),
                                     op::check_matrix("expected", expected, kAll));
    if (!valid.ok()) return valid;
    Comparison result;
    result.elements = got.rows * got.cols;
    for (std::int64_t i = 0; result.elements > 0 && i < got.rows; ++i) {
      compare_row(got, expected, i, result);
    }
    return result;
  });
}

}  // namespace tandem
