// SPDX-License-Identifier: Apache-2.0
//
// Multiply with instructions that multiply four bytes by four bytes, as four s8 or two bf16, and
// add everything into 32 bits. One policy per instruction set says what a vector is; the loop is
// the same. Include it after defining TANDEM_DOT4_TARGET, the attribute that lets the compiler use
// the instructions, in a file of one target only (avx512_vnni_kernel.cc and its like). Start
// reading at multiply_rows().
//
// A policy has: Element, Sums, Words, kLanes, kVectors, kMr, kProof, kOffset, kKBlock, and load(),
// broadcast(), dot(), zero(), store_sums(), all with TANDEM_DOT4_TARGET and always inlined.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "tile/kernel.h"
#include "tile/pack_groups.h"
#include "tile/simd_kernels.h"

namespace tandem::tile {
namespace {

constexpr int kWordBytes = 4;  ///< of a row or column that one instruction takes
/// Instructions in a chunk of the A panel: a cache line per row.
constexpr std::int64_t kDotChunk = 16;
constexpr std::int64_t kLineBytes = kDotChunk * kWordBytes;

/// Steps of k that one instruction takes.
template <class Policy>
constexpr int kDot = kWordBytes / static_cast<int>(sizeof(typename Policy::Element));

template <class Policy>
constexpr int kDotNr = Policy::kVectors* Policy::kLanes;

template <class Policy, int rows>
TANDEM_DOT4_TARGET [[gnu::noinline]] void multiply_rows(std::int64_t kc,
                                                        const std::byte* __restrict a,
                                                        const std::byte* __restrict b,
                                                        std::byte* __restrict tile, bool first,
                                                        Ahead ahead) {
  using Words = typename Policy::Words;
  const std::byte* fetch = ahead.at;
  typename Policy::Sums sum[rows][Policy::kVectors];
#pragma GCC unroll 32
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 32
    for (int v = 0; v < Policy::kVectors; ++v) sum[r][v] = Policy::zero();
  }
  for (std::int64_t left = (kc + kDot<Policy> - 1) / kDot<Policy>; left > 0;
       left -= kDotChunk, a += rows * kLineBytes) {
    const std::int64_t steps = left < kDotChunk ? left : kDotChunk;
    for (std::int64_t g = 0; g < steps; ++g) {
      Words column[Policy::kVectors];
#pragma GCC unroll 32
      for (int v = 0; v < Policy::kVectors; ++v) {
        column[v] = Policy::load(b + v * Policy::kLanes * kWordBytes);
      }
#pragma GCC unroll 32
      for (int r = 0; r < rows; ++r) {
        const Words row = Policy::broadcast(a + r * kLineBytes + g * kWordBytes);
#pragma GCC unroll 32
        for (int v = 0; v < Policy::kVectors; ++v) {
          sum[r][v] = Policy::dot(sum[r][v], row, column[v]);
        }
      }
      __builtin_prefetch(fetch);
      fetch += kDot<Policy> * ahead.step;
      b += kWordBytes * kDotNr<Policy>;
    }
  }
#pragma GCC unroll 32
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 32
    for (int v = 0; v < Policy::kVectors; ++v) {
      std::byte* const to = tile + (r * kDotNr<Policy> + v * Policy::kLanes) * kWordBytes;
      Policy::store_sums(to, sum[r][v], !first);
    }
  }
}

using MultiplyDotRows = void (*)(std::int64_t, const std::byte*, const std::byte*, std::byte*, bool,
                                 Ahead);

template <class Policy, int... rows>
constexpr std::array<MultiplyDotRows, sizeof...(rows)> dot_variants(
    std::integer_sequence<int, rows...>) {
  return {multiply_rows<Policy, rows + 1>...};
}

/// Kernel::multiply.
template <class Policy>
void multiply_dot4(std::int64_t kc, const std::byte* a_panel, const std::byte* b_panel,
                   std::byte* tile, int rows, bool first, Ahead ahead) {
  static constexpr auto kVariants =
      dot_variants<Policy>(std::make_integer_sequence<int, Policy::kMr>());
  const MultiplyDotRows* by_rows = kVariants.data();
  by_rows[rows - 1](kc, a_panel, b_panel, tile, first, ahead);
}

/// One line of A, each byte with the offset added. In words, since gcc 12 makes no vectors of
/// std::byte.
template <class Policy>
TANDEM_DOT4_TARGET [[gnu::always_inline]] inline void pack_line(const std::byte* from,
                                                                std::byte* to) {
  constexpr std::uint64_t kFlip = 0x0101010101010101U * std::uint64_t{Policy::kOffset};
  std::array<std::uint64_t, kLineBytes / 8> words;
  std::memcpy(words.data(), from, kLineBytes);
  for (std::uint64_t& word : words) word ^= kFlip;
  std::memcpy(to, words.data(), kLineBytes);
}

/// Kernel::pack_a: lines of 64 bytes of the rows in turn, of s8 each a + kOffset. The last word is
/// completed with zeros; behind it anything may stand.
template <class Policy>
TANDEM_DOT4_TARGET void pack_a_dot4(const std::byte* const* rows, int row_count, std::int64_t kc,
                                    std::byte* panel) {
  constexpr auto kFlip = static_cast<std::byte>(Policy::kOffset);
  const std::int64_t bytes = kc * static_cast<std::int64_t>(sizeof(typename Policy::Element));
  for (int r = 0; r < row_count; ++r) {
    std::byte* to = panel + r * kLineBytes;
    std::int64_t at = 0;
    for (; at + kLineBytes <= bytes; at += kLineBytes, to += row_count * kLineBytes) {
      pack_line<Policy>(rows[r] + at, to);
    }
    for (std::int64_t i = 0; at + i < bytes; ++i) to[i] = rows[r][at + i] ^ kFlip;
    for (std::int64_t i = bytes - at; i % kWordBytes != 0; ++i) to[i] = std::byte{0};
  }
}

/// The table row. Conversions are those of `plain`.
template <class Policy>
Kernel make_dot4_kernel(std::string_view target, decltype(Kernel::runs_on) runs_on,
                        std::span<const Kernel> plain) {
  using Element = typename Policy::Element;
  constexpr bool kFloat = Policy::kType == DType::bf16;
  Kernel kernel{.target = target,
                .type = Policy::kType,
                .accumulator = kFloat ? DType::f32 : DType::s32,
                .mr = Policy::kMr,
                .nr = kDotNr<Policy>,
                .a_bytes = sizeof(Element),
                .b_bytes = sizeof(Element),
                .runs_on = runs_on,
                .pack_a = pack_a_dot4<Policy>,
                .pack_b = pack_b_groups<Element, kDot<Policy>, kDotNr<Policy>>,
                .multiply = multiply_dot4<Policy>,
                .store = nullptr};
  take_conversions(plain, kernel);
  kernel.a_offset = Policy::kOffset;
  kernel.k_group = kDot<Policy>;
  kernel.proof = Policy::kProof;
  kernel.kc = Policy::kKBlock;
  kernel.flushes = kFloat;  // the sums of blocks; products flush by themselves
  return kernel;
}

}  // namespace
}  // namespace tandem::tile
