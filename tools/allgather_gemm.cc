// SPDX-License-Identifier: Apache-2.0
//
// The operator allgather-gemm as the command sees it: two random inputs, one call of the library
// each for run, reference and measurement.
#include "tandem/allgather_gemm.h"

#include <utility>

#include "operators.h"
#include "stream_runner.h"
#include "tandem/reference.h"
#include "tandem/weights.h"

namespace tandem::tool {
namespace {

std::vector<Input> inputs(const Job& job, int rank) {
  const bool kn = job.b_layout == BLayout::kn;
  const auto fill = [&job](Matrix m, std::uint64_t seed, std::int64_t row0) {
    job.fill == Fill::ones ? fill_ones(m) : fill_random(m, seed, row0);
  };
  // The same seeds as measure() takes, so that bench multiplies what gen would write.
  return {{.name = "a",
           .type = job.a_type,
           .rows = job.rows[static_cast<std::size_t>(rank)],
           .cols = job.k,
           .seed = job.seed,
           .sharded = true,
           .row0 = job.row0(rank),
           .fill = fill},
          {.name = "b",
           .type = job.a_type,
           .rows = kn ? job.k : job.n,
           .cols = kn ? job.n : job.k,
           .seed = job.seed + 1,
           .columns = kn ? Along::cols : Along::rows,
           .fill = fill}};
}

class AllGatherGemmRunner final : public StreamRunner<AllGatherGemm> {
 public:
  using StreamRunner::StreamRunner;

 protected:
  Status call(const Matrix& a, const Outputs& outputs) override {
    return op_.run({.a = a, .c = outputs.c, .rows = job_.rows});
  }
};

Result<std::unique_ptr<Runner>> prepare(const World& world, const Job& job,
                                        const std::vector<Matrix>& inputs) {
  auto weights = PackedWeights::pack(
      inputs[1], {.layout = job.b_layout, .kernel = job.kernel, .threads = job.compute_threads});
  auto op = AllGatherGemm::create(world, weights, job.stream_options());
  if (!op.ok()) return op.status();
  return std::unique_ptr<Runner>(
      std::make_unique<AllGatherGemmRunner>(std::move(op).value(), job, weights->kernel()));
}

Status reference(const Job& job, const std::vector<Matrix>& inputs, Matrix c, int threads) {
  return reference_gemm(inputs[0], inputs[1], job.b_layout, c, threads);
}

Result<Measurement> measure_job(const World& world, const Job& job,
                                std::function<void(double)> progress) {
  MeasureSpec spec = measure_spec_of(job);
  spec.progress = std::move(progress);
  return measure(world, spec);
}

}  // namespace

const Operator kAllGatherGemm{
    .name = "allgather-gemm",
    .title = "AllGather GEMM",
    .summary = "C = A x B, where every rank holds rows of A and gets all of C",
    .a_types = {DType::f16, DType::bf16, DType::f32},
    .c_types = {DType::f32, DType::f16, DType::bf16},
    .reference_rate = 4e10,
    .multiply_rate = 1e11,
    .inputs = inputs,
    .prepare = prepare,
    .reference = reference,
    .measure = measure_job,
};

}  // namespace tandem::tool
