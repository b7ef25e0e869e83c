// SPDX-License-Identifier: Apache-2.0
//
// The operator allgather-gemm-dequant as the command sees it: A in s8, or in a float type to be
// quantised on the way, B in s8, a bias and a scale per column; one call of the library each for
// run, reference and measurement.
#include "tandem/allgather_gemm_dequant.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "operators.h"
#include "tandem/reference.h"
#include "tandem/weights.h"

namespace tandem::tool {
namespace {

ActivationKind activations_of(const Job& job) {
  return job.a_type == DType::s8 ? ActivationKind::s8 : ActivationKind::quantised;
}

/// Bias anywhere in ±65536.
void fill_bias(Matrix m, std::uint64_t seed, std::int64_t row0) {
  fill_random({m.data, DType::f32, m.rows, m.cols, m.stride}, seed, row0);
  for (std::int64_t j = 0; j < m.cols; ++j) {
    float real = 0;
    std::memcpy(&real, m.row(0) + 4 * j, sizeof real);
    const auto bias = static_cast<std::int32_t>(real * 65536);
    std::memcpy(m.row(0) + 4 * j, &bias, sizeof bias);
  }
}

/// Scales of 0.1 to 0.5 times what keeps four standard deviations of the sums finite in f16.
void fill_scale(Matrix m, std::uint64_t seed, std::int64_t row0, const Job& job) {
  constexpr double kLargestF16 = 65504;
  // Mean squares of -128..127 all alike, and of rows quantised from reals all alike.
  const double mean_square = job.a_type == DType::s8 ? 5461 : 5418;
  // Rows that were quantised have a scale of their own, near 1/127.
  const double row_scale = job.a_type == DType::s8 ? 1 : 1.0 / 127;
  const double typical = mean_square * std::sqrt(static_cast<double>(job.k)) * row_scale;
  const auto size = static_cast<float>(kLargestF16 / (4 * typical));
  fill_random(m, seed, row0);
  for (std::int64_t j = 0; j < m.cols; ++j) {
    float& scale = reinterpret_cast<float*>(m.row(0))[j];
    scale = size * (0.3F + 0.2F * scale);
  }
}

std::vector<Input> inputs(const Job& job, int rank) {
  const bool kn = job.b_layout == BLayout::kn;
  return {{.name = "a",
           .type = job.a_type,
           .rows = job.rows[static_cast<std::size_t>(rank)],
           .cols = job.k,
           .seed = job.seed,
           .sharded = true,
           .row0 = job.row0(rank),
           .fill = fill_random},
          {.name = "b",
           .type = DType::s8,
           .rows = kn ? job.k : job.n,
           .cols = kn ? job.n : job.k,
           .seed = job.seed + 1,
           .fill = fill_random},
          {.name = "bias",
           .type = DType::s32,
           .rows = 1,
           .cols = job.n,
           .seed = job.seed + 2,
           .fill = fill_bias},
          {.name = "scale",
           .type = DType::f32,
           .rows = 1,
           .cols = job.n,
           .seed = job.seed + 3,
           .fill = [&job](Matrix m, std::uint64_t seed, std::int64_t row0) {
             fill_scale(m, seed, row0, job);
           }}};
}

std::span<const std::int32_t> bias_of(const std::vector<Matrix>& inputs) {
  return {static_cast<const std::int32_t*>(inputs[2].data),
          static_cast<std::size_t>(inputs[2].cols)};
}

std::span<const float> scale_of(const std::vector<Matrix>& inputs) {
  return {static_cast<const float*>(inputs[3].data), static_cast<std::size_t>(inputs[3].cols)};
}

class DequantRunner : public Runner {
 public:
  DequantRunner(AllGatherGemmDequant op, const Job& job, ConstMatrix a, std::string kernel)
      : op_(std::move(op)), job_(job), a_(a), kernel_(std::move(kernel)) {}

  Status run(const Matrix& c) override { return op_.run({.a = a_, .c = c, .rows = job_.rows}); }

  [[nodiscard]] Prepared prepared() const override {
    return {.kernel = kernel_,
            .chunks_per_source = op_.chunks(job_.max_rows()),
            .tile_m = op_.tile_m(),
            .tile_k = op_.tile_k()};
  }

 private:
  AllGatherGemmDequant op_;
  const Job& job_;
  ConstMatrix a_;
  std::string kernel_;
};

Result<std::unique_ptr<Runner>> prepare(const World& world, const Job& job,
                                        const std::vector<Matrix>& inputs) {
  auto weights = PackedWeights::pack(inputs[1], {.layout = job.b_layout,
                                                 .kernel = job.kernel,
                                                 .threads = job.compute_threads,
                                                 .bias = bias_of(inputs)});
  if (!weights.ok()) return weights.status();
  auto op = AllGatherGemmDequant::create(world, *weights, {.scale = scale_of(inputs)},
                                         options_of(job), activations_of(job));
  if (!op.ok()) return op.status();
  return std::unique_ptr<Runner>(
      std::make_unique<DequantRunner>(std::move(op).value(), job, inputs[0], weights->kernel()));
}

Status reference(const Job& job, const std::vector<Matrix>& inputs, Matrix c, int threads) {
  DequantReference problem{.a = inputs[0],
                           .b = inputs[1],
                           .layout = job.b_layout,
                           .bias = bias_of(inputs),
                           .dequantisation = {.scale = scale_of(inputs)}};
  std::vector<std::byte> bytes;
  std::vector<float> row_scale;
  if (activations_of(job) == ActivationKind::quantised) {
    bytes.resize(static_cast<std::size_t>(inputs[0].rows * inputs[0].cols));
    row_scale.resize(static_cast<std::size_t>(inputs[0].rows));
    const Matrix quantised = dense(bytes.data(), DType::s8, inputs[0].rows, inputs[0].cols);
    Status status = reference_quantise(inputs[0], quantised, row_scale);
    if (!status.ok()) return status;
    problem.a = quantised;
    problem.row_scale = row_scale;
  }
  return reference_gemm_dequant(problem, c, threads);
}

Result<Measurement> measure_job(const World& world, const Job& job,
                                std::function<void(double)> progress) {
  MeasureSpec spec = measure_spec_of(job);
  spec.activations = activations_of(job);
  spec.progress = std::move(progress);
  return measure(world, spec);
}

}  // namespace

const Operator kAllGatherGemmDequant{
    .name = "allgather-gemm-dequant",
    .title = "AllGather GEMM Dequant",
    .summary = "C = dequantise(A x B + bias) in s8, where every rank holds rows of A",
    .a_types = {DType::s8, DType::f16, DType::bf16, DType::f32},
    .c_types = {DType::f16, DType::bf16, DType::f32, DType::s32},
    .inputs = inputs,
    .prepare = prepare,
    .reference = reference,
    .measure = measure_job,
};

}  // namespace tandem::tool
