// SPDX-License-Identifier: Apache-2.0
//
// The blocked multiply on one thread, driven as the compute engine drives it, as a ratio to the
// ceiling of the same instructions in the same moment; and packing B, as a ratio to memcpy.
// For one target or shape:
//   block_bench --benchmark_filter='avx2_f16/2048x2048x1024'
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include <fmt/format.h>

#include "base/aligned_bytes.h"
#include "bench/ceilings.h"
#include "bench/side_by_side.h"
#include "block/multiply.h"
#include "platform/topology.h"
#include "tandem/reference.h"

namespace tandem::bench {
namespace {

struct Shape {
  std::int64_t m, k, n;
};

// Large; few rows; few rows and long weights; one chunk with B in cache; decoding.
constexpr Shape kShapes[] = {{2048, 2048, 1024}, {64, 2048, 1024}, {128, 4096, 4096},
                             {32, 1024, 256},    {16, 4096, 4096}, {1, 4096, 4096}};

/// Everything one multiply needs, made once per benchmark.
struct Problem {
  Problem(const tile::Kernel& kernel, Shape s)
      : shape(s),
        blocking(block::blocking_for(kernel, platform::cache_sizes())),
        a(base::make_aligned(static_cast<std::size_t>(s.m * s.k) * size_of(kernel.type))),
        c(base::make_aligned(static_cast<std::size_t>(s.m * s.n) * sizeof(float))),
        packed_a(base::make_aligned(block::packed_a_bytes(kernel, blocking))),
        accumulators(base::make_aligned(block::accumulator_bytes(kernel, blocking))),
        weights{&kernel, s.k, s.n, nullptr} {
    a_view = dense(a.get(), kernel.type, s.m, s.k);
    c_view = dense(c.get(), kernel.accumulator, s.m, s.n);
    fill_random(a_view, 1);
    const auto source =
        base::make_aligned(static_cast<std::size_t>(s.k * s.n) * size_of(kernel.type));
    const Matrix b = dense(source.get(), kernel.type, s.k, s.n);
    fill_random(b, 2);
    packed_b = base::make_aligned(weights.bytes());
    weights.data = packed_b.get();
    block::pack_b(b, BLayout::kn, 0, weights.panels(), weights);
  }

  Shape shape;
  block::Blocking blocking;
  base::AlignedBytes a, c, packed_a, accumulators, packed_b;
  Matrix a_view, c_view;
  block::PackedB weights;
  std::vector<const std::byte*> rows;
};

void multiply(Problem& p) {
  const tile::Kernel& kernel = *p.weights.kernel;
  p.rows.resize(static_cast<std::size_t>(p.blocking.mc));
  for (std::int64_t row0 = 0; row0 < p.shape.m; row0 += p.blocking.mc) {
    const std::int64_t rows = std::min(p.blocking.mc, p.shape.m - row0);
    for (std::int64_t i = 0; i < rows; ++i) {
      p.rows[static_cast<std::size_t>(i)] = p.a_view.row(row0 + i);
    }
    for (std::int64_t col0 = 0; col0 < p.shape.n; col0 += p.blocking.nc) {
      const std::int64_t cols = std::min(p.blocking.nc, p.shape.n - col0);
      const block::Dequantisation raw;
      const block::Epilogue epilogue{
          .c = {p.c_view.row(row0) + static_cast<std::size_t>(col0) * sizeof(float),
                kernel.accumulator, rows, cols, p.c_view.stride},
          .factors = kernel.accumulator == DType::s32 ? &raw : nullptr};
      for (std::int64_t k0 = 0; k0 < p.shape.k; k0 += kernel.kc) {
        const std::int64_t kc = std::min(kernel.kc, p.shape.k - k0);
        block::pack_a(kernel, p.rows.data(), rows, k0, kc, p.packed_a.get());
        block::multiply(p.weights, p.packed_a.get(),
                        {.rows = rows, .k0 = k0, .kc = kc, .col0 = col0, .cols = cols},
                        p.accumulators.get(), epilogue);
      }
    }
  }
}

void multiply_bench(benchmark::State& state, const tile::Kernel* kernel, Shape shape) {
  Problem problem(*kernel, shape);
  const double operations = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.k) *
                            static_cast<double>(shape.n);
  // Small problems are repeated, so that the clock's and the turns' cost vanish.
  const int repeats = std::max(1, static_cast<int>(5e7 / operations));
  side_by_side(
      state,
      [&] {
        for (int i = 0; i < repeats; ++i) multiply(problem);
        return operations * repeats;
      },
      [&] { return run_ceiling(*kernel, 200'000); });
}

/// B of 4096 × 4096, larger than most caches as weights are, against memcpy of it.
void pack_b_bench(benchmark::State& state, const tile::Kernel* kernel, BLayout layout) {
  constexpr std::int64_t kSize = 4096;
  const std::size_t bytes = static_cast<std::size_t>(kSize * kSize) * kernel->b_bytes;
  const auto source = base::make_aligned(bytes), copy = base::make_aligned(bytes);
  const Matrix b = dense(source.get(), kernel->type, kSize, kSize);
  fill_random(b, 1);
  block::PackedB packed{.kernel = kernel, .k = kSize, .n = kSize};
  const auto data = base::make_aligned(packed.bytes());
  packed.data = data.get();
  side_by_side(
      state,
      [&] {
        block::pack_b(b, layout, 0, packed.panels(), packed);
        benchmark::ClobberMemory();
        return static_cast<double>(bytes);
      },
      [&] {
        std::memcpy(copy.get(), source.get(), bytes);
        benchmark::ClobberMemory();
        return static_cast<double>(bytes);
      });
}

const bool registered = [] {
  for (const tile::Kernel& kernel : tile::kernel_table()) {
    std::string why;
    if (kernel.target == "scalar" || !kernel.runs_on(platform::cpu_features(), &why)) continue;
    for (const BLayout layout : {BLayout::kn, BLayout::nk}) {
      const auto name = fmt::format("pack_b/{}_{}/{}", kernel.target, tandem::name(kernel.type),
                                    tandem::name(layout));
      benchmark::RegisterBenchmark(name.c_str(), pack_b_bench, &kernel, layout)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
    for (const Shape& shape : kShapes) {
      const auto name = fmt::format("multiply/{}_{}/{}x{}x{}", kernel.target,
                                    tandem::name(kernel.type), shape.m, shape.k, shape.n);
      benchmark::RegisterBenchmark(name.c_str(), multiply_bench, &kernel, shape)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}();

}  // namespace
}  // namespace tandem::bench
