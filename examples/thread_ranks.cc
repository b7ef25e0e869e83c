// SPDX-License-Identifier: Apache-2.0
//
// The same operator with ranks that are threads of one process, uneven shards, and a check against
// the reference: what a test of your own code would look like. Start it as it is: ./thread_ranks
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include <tandem/tandem.h>

namespace {

constexpr std::int64_t kRowsOf[] = {100, 0, 33};
constexpr std::int64_t kM = 133, kK = 777, kN = 131;

tandem::Status run_rank(const tandem::World& world, const tandem::PackedWeights& weights,
                        tandem::ConstMatrix a, tandem::Matrix c) {
  auto op = tandem::AllGatherGemm::create(world, weights, {.max_rows = 100});
  if (!op.ok()) return op.status();
  return op->run({.a = a, .c = c, .rows = kRowsOf});
}

tandem::Status multiply_and_check() {
  std::vector<float> a_data(kM * kK), b_data(kK * kN), expected_data(kM * kN);
  const auto a = tandem::dense(a_data.data(), tandem::DType::f32, kM, kK);
  const auto b = tandem::dense(b_data.data(), tandem::DType::f32, kK, kN);
  const auto expected = tandem::dense(expected_data.data(), tandem::DType::f32, kM, kN);
  tandem::fill_random(a, 1);
  tandem::fill_random(b, 2);

  auto weights = tandem::PackedWeights::pack(b);
  if (!weights.ok()) return weights.status();
  auto worlds = tandem::World::threads(3);
  if (!worlds.ok()) return worlds.status();

  // One thread per rank: each call is collective and returns when this rank's C is complete.
  std::vector<std::vector<float>> c(3, std::vector<float>(kM * kN));
  std::vector<tandem::Status> status(3);
  std::vector<std::thread> ranks;
  for (std::size_t r = 0, row0 = 0; r < 3; row0 += static_cast<std::size_t>(kRowsOf[r]), ++r) {
    ranks.emplace_back([&, r, row0] {
      const auto shard =
          tandem::dense(a_data.data() + row0 * kK, tandem::DType::f32, kRowsOf[r], kK);
      const auto out = tandem::dense(c[r].data(), tandem::DType::f32, kM, kN);
      status[r] = run_rank((*worlds)[r], *weights, shard, out);
    });
  }
  for (auto& rank : ranks) rank.join();
  for (const auto& rank_status : status) {
    if (!rank_status.ok()) return rank_status;
  }

  if (auto done = tandem::reference_gemm(a, b, tandem::BLayout::kn, expected); !done.ok()) {
    return done;
  }
  for (auto& result : c) {
    auto same = tandem::compare(tandem::dense(result.data(), tandem::DType::f32, kM, kN), expected);
    if (!same.ok()) return same.status();
    if (!same->equal()) return {tandem::StatusCode::kInternal, same->text()};
  }
  std::puts("3 thread ranks, bit-equal to the reference");
  return {};
}

}  // namespace

int main() {
  const tandem::Status status = multiply_and_check();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
