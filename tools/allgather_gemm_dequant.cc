// SPDX-License-Identifier: Apache-2.0
//
// The operator allgather-gemm-dequant as the command sees it: A in s8, or in a float type to be
// quantised on the way, B in s8, a bias and a scale per column, perhaps a scale per
// row; one call of the library each for run, reference and measurement.
#include "tandem/allgather_gemm_dequant.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "dequant_check.h"
#include "operators.h"
#include "stream_runner.h"
#include "tandem/reference.h"
#include "tandem/weights.h"

namespace tandem::tool {
namespace {

ActivationKind activations_of(const Job& job) {
  if (job.a_type != DType::s8) return ActivationKind::quantised;
  return job.row_scales ? ActivationKind::s8_row_scaled : ActivationKind::s8;
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
  const auto size = static_cast<float>(job.scale_size * kLargestF16 / (4 * typical));
  fill_random(m, seed, row0);
  for (std::int64_t j = 0; j < m.cols; ++j) {
    float& scale = reinterpret_cast<float*>(m.row(0))[j];
    scale = size * (0.3F + 0.2F * scale);
  }
}

/// Scales of rows: 0.1 to 0.5.
void fill_row_scale(Matrix m, std::uint64_t seed, std::int64_t row0) {
  fill_random(m, seed, row0);
  for (std::int64_t i = 0; i < m.rows; ++i) {
    float& scale = *reinterpret_cast<float*>(m.row(i));
    scale = 0.3F + 0.2F * scale;
  }
}

/// Everything 1, and scales of a half: every output can be told in the head.
void fill_fixed(Matrix m, float factor) {
  fill_ones(m);
  if (m.type != DType::f32 || factor == 1) return;
  for (std::int64_t i = 0; i < m.rows; ++i) {
    for (std::int64_t j = 0; j < m.cols; ++j) reinterpret_cast<float*>(m.row(i))[j] = factor;
  }
}

std::vector<Input> inputs(const Job& job, int rank) {
  const bool kn = job.b_layout == BLayout::kn;
  const std::int64_t rows = job.rows[static_cast<std::size_t>(rank)];
  std::vector<Input> all{{.name = "a",
                          .catccos_name = "x1_gm",
                          .type = job.a_type,
                          .rows = rows,
                          .cols = job.k,
                          .seed = job.seed,
                          .sharded = true,
                          .row0 = job.row0(rank),
                          .fill = fill_random},
                         {.name = "b",
                          .catccos_name = "x2_gm",
                          .type = DType::s8,
                          .rows = kn ? job.k : job.n,
                          .cols = kn ? job.n : job.k,
                          .seed = job.seed + 1,
                          .columns = kn ? Along::cols : Along::rows,
                          .fill = fill_random},
                         {.name = "scale",
                          .catccos_name = "scale_x2_gm",
                          .type = DType::f32,
                          .rows = 1,
                          .cols = job.n,
                          .seed = job.seed + 3,
                          .columns = Along::cols,
                          .fill = [&job](Matrix m, std::uint64_t seed, std::int64_t row0) {
                            fill_scale(m, seed, row0, job);
                          }}};
  if (job.bias) {
    all.push_back({.name = "bias",
                   .catccos_name = "bias_gm",
                   .type = DType::s32,
                   .rows = 1,
                   .cols = job.n,
                   .seed = job.seed + 2,
                   .columns = Along::cols,
                   .fill = fill_bias});
  }
  if (job.row_scales) {
    all.push_back({.name = "row_scale",
                   .catccos_name = "scale_x1_gm",
                   .type = DType::f32,
                   .rows = rows,
                   .cols = 1,
                   .seed = job.seed + 4,
                   .sharded = true,
                   .row0 = job.row0(rank),
                   .fill = fill_row_scale});
  }
  if (job.fill == Fill::ones) {
    for (Input& input : all) {
      input.fill = [factor = input.name == "scale" ? 0.5F : 1.0F](
                       Matrix m, std::uint64_t, std::int64_t) { fill_fixed(m, factor); };
    }
  }
  return all;
}

/// The inputs by name, in the order of inputs().
DequantReference problem_of(const Job& job, const std::vector<Matrix>& inputs) {
  const auto vector = [](const Matrix& m) { return static_cast<std::size_t>(m.rows * m.cols); };
  DequantReference problem{.a = inputs[0], .b = inputs[1], .layout = job.b_layout};
  problem.dequantisation = {.scale = {static_cast<const float*>(inputs[2].data), vector(inputs[2])},
                            .saturate = job.saturate};
  if (job.bias) {
    problem.bias = {static_cast<const std::int32_t*>(inputs[3].data), vector(inputs[3])};
  }
  if (job.row_scales) {
    const Matrix& scales = inputs.back();
    problem.row_scale = {static_cast<const float*>(scales.data), vector(scales)};
  }
  return problem;
}

class DequantRunner final : public StreamRunner<AllGatherGemmDequant> {
 public:
  DequantRunner(const World& world, AllGatherGemmDequant op, const Job& job, PackedWeights weights,
                std::vector<Matrix> inputs)
      : StreamRunner(std::move(op), job, weights.kernel()),
        world_(world),
        weights_(std::move(weights)),
        inputs_(std::move(inputs)) {}

  Result<std::unique_ptr<BlockCheck>> block_check(std::int64_t most_rows) override {
    return make_dequant_check(world_, job_, weights_, problem_of(job_, inputs_), most_rows);
  }

 protected:
  Status call(const Matrix& a, const Outputs& outputs) override {
    return op_.run({.a = a,
                    .c = outputs.c,
                    .row_scale = problem_of(job_, inputs_).row_scale,
                    .rows = job_.rows,
                    .accumulators = outputs.accumulators});
  }

 private:
  const World& world_;
  PackedWeights weights_;
  std::vector<Matrix> inputs_;
};

Result<std::unique_ptr<Runner>> prepare(const World& world, const Job& job,
                                        const std::vector<Matrix>& inputs) {
  const DequantReference problem = problem_of(job, inputs);
  auto weights = PackedWeights::pack(inputs[1], {.layout = job.b_layout,
                                                 .kernel = job.kernel,
                                                 .threads = job.compute_threads,
                                                 .bias = problem.bias});
  auto op = AllGatherGemmDequant::create(world, weights, problem.dequantisation,
                                         job.stream_options(), activations_of(job));
  if (!op.ok()) return op.status();
  return std::unique_ptr<Runner>(
      std::make_unique<DequantRunner>(world, std::move(op).value(), job, *weights, inputs));
}

Status reference(const Job& job, const std::vector<Matrix>& inputs, Matrix c, int threads) {
  DequantReference problem = problem_of(job, inputs);
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
    .s8_weights = true,
    .reference_rate = 6e9,
    .multiply_rate = 3e11,
    .inputs = inputs,
    .prepare = prepare,
    .reference = reference,
    .measure = measure_job,
};

}  // namespace tandem::tool
