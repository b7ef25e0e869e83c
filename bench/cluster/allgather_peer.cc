// SPDX-License-Identifier: Apache-2.0
//
// What a user of several machines has without Tandem, beside Tandem, in one run: MPI_Allgather of A
// and then OpenBLAS's sgemm, against the fused operator on the same f32 matrices. Rounds alternate;
// a time is that of the slowest rank. Start it with mpirun, on hosts or on tests/cluster/hosts.py:
//
//   mpirun … cluster_peer M K N [ROUNDS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include <cblas.h>

#include "tandem/mpi.h"
#include "tandem/tandem.h"

namespace {

using tandem::DType;

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

double slowest_ms(const std::function<void()>& body) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  body();
  double took = (MPI_Wtime() - start) * 1e3;
  MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return took;
}

int fail(const tandem::Status& status) {
  std::fprintf(stderr, "cluster_peer: %s\n", status.message().c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  return 1;
}

int measure(std::int64_t m, std::int64_t k, std::int64_t n, int rounds) {
  auto world = tandem::mpi::make_world(MPI_COMM_WORLD);
  if (!world.ok()) return fail(world.status());
  const std::int64_t rows = m / world->size();
  m = rows * world->size();
  const auto floats = [](std::int64_t r, std::int64_t c) {
    return std::vector<float>(static_cast<std::size_t>(r * c));
  };
  std::vector<float> a = floats(rows, k), b = floats(k, n), c = floats(m, n), c_peer = floats(m, n),
                     gathered = floats(m, k);
  const auto view = [](std::vector<float>& v, std::int64_t r, std::int64_t cols) {
    return tandem::dense(reinterpret_cast<std::byte*>(v.data()), DType::f32, r, cols);
  };
  tandem::fill_random(view(a, rows, k), 1, world->rank() * rows);
  tandem::fill_random(view(b, k, n), 2);
  auto weights = tandem::PackedWeights::pack(view(b, k, n), {});
  if (!weights.ok()) return fail(weights.status());
  auto op = tandem::AllGatherGemm::create(*world, *weights, {.max_rows = rows});
  if (!op.ok()) return fail(op.status());
  openblas_set_num_threads(1);

  const auto count = static_cast<int>(rows * k);
  const auto gather = [&] {
    MPI_Allgather(a.data(), count, MPI_FLOAT, gathered.data(), count, MPI_FLOAT, MPI_COMM_WORLD);
  };
  const auto multiply = [&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(m), static_cast<int>(n),
                static_cast<int>(k), 1, gathered.data(), static_cast<int>(k), b.data(),
                static_cast<int>(n), 0, c_peer.data(), static_cast<int>(n));
  };
  std::vector<double> gathers, multiplies, peers, fused;
  tandem::Status status;
  for (int round = -2; round < rounds; ++round) {
    const double times[] = {
        slowest_ms(gather), slowest_ms(multiply), slowest_ms([&] {
          gather();
          multiply();
        }),
        slowest_ms([&] { status = op->run({.a = view(a, rows, k), .c = view(c, m, n)}); })};
    if (!status.ok()) return fail(status);
    if (round < 0) continue;
    gathers.push_back(times[0]);
    multiplies.push_back(times[1]);
    peers.push_back(times[2]);
    fused.push_back(times[3]);
  }
  double largest = 0;  // OpenBLAS rounds otherwise: close, not equal
  for (std::size_t i = 0; i < c.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(c[i] - c_peer[i])));
  }
  if (world->rank() == 0) {
    std::printf(
        "M = %ld, K = %ld, N = %ld, f32, %d ranks: MPI_Allgather %.1f ms, sgemm %.1f, both "
        "%.1f; Tandem fused %.1f: %.2f times as fast (largest difference %.1e)\n",
        static_cast<long>(m), static_cast<long>(k), static_cast<long>(n), world->size(),
        median(gathers), median(multiplies), median(peers), median(fused),
        median(peers) / median(fused), largest);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int granted = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
  const auto number = [&](int i, long standard) {
    return argc > i ? std::atol(argv[i]) : standard;
  };
  const int code =
      measure(number(1, 2048), number(2, 1024), number(3, 1024), static_cast<int>(number(4, 9)));
  MPI_Finalize();
  return code;
}
