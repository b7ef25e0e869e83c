// SPDX-License-Identifier: Apache-2.0
//
// Single kernels of the table: the micro-kernel with its panels in L1, at each row count, as a
// ratio to the ceiling of its instructions; packing A as a ratio to memcpy of as many bytes. For
// one:
//   tile_bench --benchmark_filter='multiply/avx2_f16'
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include <fmt/format.h>

#include "base/aligned_bytes.h"
#include "base/float_environment.h"
#include "bench/ceilings.h"
#include "bench/side_by_side.h"
#include "platform/topology.h"
#include "tandem/reference.h"
#include "tile/kernel.h"

namespace tandem::bench {
namespace {

void multiply_bench(benchmark::State& state, const tile::Kernel* kernel, int rows) {
  const auto a =
      base::make_aligned(static_cast<std::size_t>(kernel->mr * kernel->kc) * kernel->a_bytes);
  const auto b =
      base::make_aligned(static_cast<std::size_t>(kernel->nr * kernel->kc) * kernel->b_bytes);
  const auto tile = base::make_aligned(kernel->tile_bytes());
  const bool widened = kernel->a_bytes == sizeof(float);
  const DType a_type = widened ? DType::f32 : kernel->type;
  const base::SubnormalsFlushed mode(kernel->flushes);
  fill_random(dense(a.get(), a_type, kernel->mr, kernel->kc), 1);
  fill_random(dense(b.get(), kernel->type, kernel->kc, kernel->nr), 2);
  side_by_side(
      state,
      [&] {
        constexpr int kRepeats = 200;
        for (int i = 0; i < kRepeats; ++i) {
          kernel->multiply(kernel->kc, a.get(), b.get(), tile.get(), rows, i == 0, {});
        }
        return static_cast<double>(2 * kRepeats * kernel->kc * rows * kernel->nr);
      },
      [&] { return run_ceiling(*kernel, 20'000); });
}

/// Rows of A from L2 into a panel in L1, in elements per second, against memcpy of the panel.
void pack_a_bench(benchmark::State& state, const tile::Kernel* kernel) {
  constexpr std::int64_t kRows = 64, kRepeats = 20;
  const auto a =
      base::make_aligned(static_cast<std::size_t>(kRows * kernel->kc) * size_of(kernel->type));
  const auto panel =
      base::make_aligned(static_cast<std::size_t>(kernel->mr * kernel->kc) * kernel->a_bytes);
  const auto copy =
      base::make_aligned(static_cast<std::size_t>(kernel->mr * kernel->kc) * kernel->a_bytes);
  const Matrix view = dense(a.get(), kernel->type, kRows, kernel->kc);
  fill_random(view, 1);
  std::vector<const std::byte*> rows;
  for (std::int64_t i = 0; i < kRows; ++i) rows.push_back(view.row(i));
  const double elements =
      static_cast<double>(kRepeats * (kRows / kernel->mr) * kernel->mr * kernel->kc);
  side_by_side(
      state,
      [&] {
        for (int repeat = 0; repeat < kRepeats; ++repeat) {
          for (std::int64_t row = 0; row + kernel->mr <= kRows; row += kernel->mr) {
            kernel->pack_a(rows.data() + row, kernel->mr, kernel->kc, panel.get());
            benchmark::ClobberMemory();
          }
        }
        return elements;
      },
      [&] {
        for (int repeat = 0; repeat < kRepeats; ++repeat) {
          for (std::int64_t row = 0; row + kernel->mr <= kRows; row += kernel->mr) {
            std::memcpy(copy.get(), panel.get(),
                        static_cast<std::size_t>(kernel->mr * kernel->kc) * kernel->a_bytes);
            benchmark::ClobberMemory();
          }
        }
        return elements;
      });
}

template <class... Arguments>
void add(const std::string& name, Arguments... arguments) {
  benchmark::RegisterBenchmark(name.c_str(), arguments...)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

const bool registered = [] {
  for (const tile::Kernel& kernel : tile::kernel_table()) {
    std::string why;
    if (kernel.target == "scalar" || !kernel.runs_on(platform::cpu_features(), &why)) continue;
    const auto id = fmt::format("{}_{}", kernel.target, tandem::name(kernel.type));
    for (int rows = kernel.mr; rows >= 1; --rows) {
      add(fmt::format("multiply/{}/rows:{}", id, rows), multiply_bench, &kernel, rows);
    }
    add(fmt::format("pack_a/{}", id), pack_a_bench, &kernel);
  }
  return true;
}();

}  // namespace
}  // namespace tandem::bench
