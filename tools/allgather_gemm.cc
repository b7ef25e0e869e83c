// SPDX-License-Identifier: Apache-2.0
//
// The operator allgather-gemm as the command sees it: two random inputs, one call of the library
// each for run, reference and measurement.
#include "tandem/allgather_gemm.h"

#include <utility>

#include "operators.h"
#include "tandem/reference.h"
#include "tandem/weights.h"

namespace tandem::tool {
namespace {

std::vector<Input> inputs(const Job& job, int rank) {
  const bool kn = job.b_layout == BLayout::kn;
  // The same seeds as measure() takes, so that bench multiplies what gen would write.
  return {{.name = "a",
           .type = job.a_type,
           .rows = job.rows[static_cast<std::size_t>(rank)],
           .cols = job.k,
           .seed = job.seed,
           .sharded = true,
           .row0 = job.row0(rank),
           .fill = fill_random},
          {.name = "b",
           .type = job.a_type,
           .rows = kn ? job.k : job.n,
           .cols = kn ? job.n : job.k,
           .seed = job.seed + 1,
           .fill = fill_random}};
}

class AllGatherGemmRunner : public Runner {
 public:
  AllGatherGemmRunner(AllGatherGemm op, const Job& job, ConstMatrix a, std::string kernel)
      : op_(std::move(op)), job_(job), a_(a), kernel_(std::move(kernel)) {}

  Status run(const Matrix& c) override { return op_.run({.a = a_, .c = c, .rows = job_.rows}); }

  [[nodiscard]] Prepared prepared() const override {
    return {.kernel = kernel_,
            .chunks_per_source = op_.chunks(job_.max_rows()),
            .tile_m = op_.tile_m(),
            .tile_k = op_.tile_k()};
  }

 private:
  AllGatherGemm op_;
  const Job& job_;
  ConstMatrix a_;
  std::string kernel_;
};

Result<std::unique_ptr<Runner>> prepare(const World& world, const Job& job,
                                        const std::vector<Matrix>& inputs) {
  auto weights = PackedWeights::pack(
      inputs[1], {.layout = job.b_layout, .kernel = job.kernel, .threads = job.compute_threads});
  if (!weights.ok()) return weights.status();
  auto op = AllGatherGemm::create(world, *weights, options_of(job));
  if (!op.ok()) return op.status();
  return std::unique_ptr<Runner>(std::make_unique<AllGatherGemmRunner>(
      std::move(op).value(), job, inputs[0], weights->kernel()));
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
    .inputs = inputs,
    .prepare = prepare,
    .reference = reference,
    .measure = measure_job,
};

}  // namespace tandem::tool
