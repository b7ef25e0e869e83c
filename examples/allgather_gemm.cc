// SPDX-License-Identifier: Apache-2.0
//
// AllGather + GEMM in a program of your own. Every rank holds 256 rows of A and the same B; every
// rank gets all of C. Start it with:  tandem launch -n 2 -- ./allgather_gemm
#include <cstdint>
#include <cstdio>
#include <vector>

#include <tandem/tandem.h>

namespace {

constexpr std::int64_t kRows = 256, kK = 1024, kN = 512;

tandem::Status multiply() {
  auto world = tandem::World::from_environment();
  if (!world.ok()) return world.status();

  // B is rearranged once, here; a real program would read it from a model file.
  std::vector<std::uint16_t> b_data(kK * kN);
  const tandem::Matrix b = tandem::dense(b_data.data(), tandem::DType::f16, kK, kN);
  tandem::fill_random(b, /*seed=*/7);
  auto weights = tandem::PackedWeights::pack(b);
  if (!weights.ok()) return weights.status();

  auto op = tandem::AllGatherGemm::create(*world, *weights, {.max_rows = kRows});
  if (!op.ok()) return op.status();

  // This rank's rows of A, written straight into the memory that its peers read.
  auto a = op->acquire_input(kRows);
  if (!a.ok()) return a.status();
  tandem::fill_random(*a, /*seed=*/3, /*row0=*/world->rank() * kRows);

  const std::int64_t m = world->size() * kRows;
  std::vector<float> c_data(static_cast<std::size_t>(m * kN));
  const tandem::Matrix c = tandem::dense(c_data.data(), tandem::DType::f32, m, kN);
  if (auto status = op->run({.a = *a, .c = c}); !status.ok()) return status;

  if (world->rank() == 0) {
    std::printf("%d ranks: C is %lld x %lld, its last element is %g\n", world->size(),
                static_cast<long long>(m), static_cast<long long>(kN), c_data.back());
  }
  return {};
}

}  // namespace

int main() {
  const tandem::Status status = multiply();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
