// SPDX-License-Identifier: Apache-2.0
//
// The experiments: what they share, then one class per operator.
#include "op/experiment.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "op/allgather_gemm_dequant_impl.h"
#include "op/allgather_gemm_impl.h"
#include "op/validate.h"
#include "tandem/reference.h"

namespace tandem::op {
namespace {

/// B's seed is another than A's.
std::uint64_t seed_b(const MeasureSpec& spec) { return spec.seed + 1; }

/// Dense rows of A, made again from the seed.
class RowsOfA {
 public:
  RowsOfA(const MeasureSpec& spec, DType type, const std::vector<std::int64_t>& rows)
      : bytes_(rows.size() * static_cast<std::size_t>(spec.k) * size_of(type)),
        view_(dense(bytes_.data(), type, static_cast<std::int64_t>(rows.size()), spec.k)) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      fill_random(dense(view_.row(static_cast<std::int64_t>(i)), type, 1, spec.k), spec.seed,
                  rows[i]);
    }
  }
  [[nodiscard]] ConstMatrix view() const { return view_; }

 private:
  std::vector<std::byte> bytes_;
  Matrix view_;
};

/// What both operators know of themselves.
template <class Operator>
void describe_operator(const PackedWeights& weights, const Operator& op, const MeasureSpec& spec,
                       Measurement& out) {
  out.kernel = weights.kernel();
  out.chunks_per_source = op.chunks(*std::max_element(spec.rows.begin(), spec.rows.end()));
  out.tile_m = op.tile_m();
  out.tile_k = op.tile_k();
  out.window_bytes = op.window_bytes();
}

class GemmExperiment final : public Experiment {
 public:
  using Experiment::Experiment;
  GemmExperiment(const World& world, const MeasureSpec& spec) : Experiment(world, spec) {}

  Status fused() override {
    Status ready = refresh_input();
    return ready.ok() ? op_->run({.a = a(), .c = c(), .rows = spec_.rows}) : ready;
  }
  Status gather() override {
    if (Status ready = refresh_input(); !ready.ok()) return ready;
    return op_->impl().run({.a = a(), .c = {}, .rows = spec_.rows, .gathered_a = gathered()},
                           Phase::gather);
  }
  Status multiply() override { return op_->impl().multiply(gathered(), spec_.rows, c()); }
  void describe(Measurement& out) override { describe_operator(*weights_, *op_, spec_, out); }

 protected:
  Status create_operator() override {
    auto weights = PackedWeights::pack(b(), {.layout = spec_.b_layout,
                                             .kernel = spec_.kernel,
                                             .threads = spec_.options.compute_threads});
    // Also where packing failed: create() tells the others.
    auto made = AllGatherGemm::create(world_, weights, options());
    if (!made.ok()) return made.status();
    weights_ = std::move(weights).value();
    op_.emplace(std::move(made).value());
    return {};
  }
  Status reference(const std::vector<std::int64_t>& rows, Matrix expected) override {
    const RowsOfA a_rows(spec_, spec_.a_type, rows);
    return reference_gemm(a_rows.view(), b(), spec_.b_layout, expected,
                          spec_.options.compute_threads);
  }
  Result<Matrix> acquire_input() override { return op_->acquire_input(own_rows_); }
  [[nodiscard]] double reference_rate() const override { return 2e10; }

 private:
  std::optional<PackedWeights> weights_;
  std::optional<AllGatherGemm> op_;
};

class DequantExperiment final : public Experiment {
 public:
  DequantExperiment(const World& world, const MeasureSpec& spec)
      : Experiment(world, spec), activations_(*spec.activations) {}

  Status allocate() override {
    make_factors();
    return Experiment::allocate();
  }

  Status fused() override {
    Status ready = refresh_input();
    return ready.ok() ? op_->run(call()) : ready;
  }
  Status gather() override {
    if (Status ready = refresh_input(); !ready.ok()) return ready;
    AllGatherGemmDequantCall gathering = call();
    gathering.c = {};
    gathering.gathered_a = gathered();
    return op_->impl().run(gathering, Phase::gather);
  }
  Status multiply() override {
    const float* scales = row_scales_.empty() ? nullptr : row_scales_.data();
    return op_->impl().multiply(gathered(), scales, spec_.rows, c());
  }
  void describe(Measurement& out) override { describe_operator(*weights_, *op_, spec_, out); }

 protected:
  [[nodiscard]] DType travelling_type() const override { return DType::s8; }

  Status create_operator() override {
    auto weights = PackedWeights::pack(b(), {.layout = spec_.b_layout,
                                             .kernel = spec_.kernel,
                                             .threads = spec_.options.compute_threads,
                                             .bias = bias_});
    auto made =
        AllGatherGemmDequant::create(world_, weights, dequantisation(), options(), activations_);
    if (!made.ok()) return made.status();
    weights_ = std::move(weights).value();
    op_.emplace(std::move(made).value());
    return {};
  }

  Status reference(const std::vector<std::int64_t>& rows, Matrix expected) override {
    const RowsOfA given(spec_, given_type(), rows);
    std::vector<std::byte> quantised(rows.size() * static_cast<std::size_t>(spec_.k));
    std::vector<float> scales;
    ConstMatrix a_rows = given.view();
    if (activations_ == ActivationKind::quantised) {
      scales.resize(rows.size());
      const Matrix q = dense(quantised.data(), DType::s8, a_rows.rows, a_rows.cols);
      if (Status status = reference_quantise(a_rows, q, scales); !status.ok()) return status;
      a_rows = q;
    } else if (activations_ == ActivationKind::s8_row_scaled) {
      for (std::int64_t row : rows) scales.push_back(row_scales_[static_cast<std::size_t>(row)]);
    }
    return reference_gemm_dequant({a_rows, b(), spec_.b_layout, bias_, dequantisation(), scales},
                                  expected, spec_.options.compute_threads);
  }
  Result<Matrix> acquire_input() override { return op_->acquire_input(own_rows_); }
  [[nodiscard]] double reference_rate() const override { return 2e9; }

 private:
  [[nodiscard]] Dequantisation dequantisation() const {
    return {.scale = scale_, .requantise = requantise_, .saturate = spec_.saturate};
  }
  [[nodiscard]] AllGatherGemmDequantCall call() {
    AllGatherGemmDequantCall result{.a = a(), .c = c(), .rows = spec_.rows};
    if (activations_ == ActivationKind::s8_row_scaled) {
      result.row_scale =
          std::span<const float>(row_scales_)
              .subspan(static_cast<std::size_t>(row0_), static_cast<std::size_t>(own_rows_));
    }
    return result;
  }

  /// Bias in ±65536; scales of 0.1 to 0.5 times what keeps four standard deviations of the sums
  /// finite in f16.
  void make_factors() {
    std::vector<float> reals(static_cast<std::size_t>(2 * spec_.n + m_));
    fill_random(dense(reals.data(), DType::f32, 1, static_cast<std::int64_t>(reals.size())),
                spec_.seed + 2);
    constexpr double kLargestF16 = 65504, kMeanSquareS8 = 5461;  // of -128..127, all alike
    const double typical = kMeanSquareS8 * std::sqrt(static_cast<double>(spec_.k));
    const auto size = static_cast<float>(kLargestF16 / (4 * typical));
    const auto fraction = [](float real) { return 0.3F + 0.2F * real; };
    for (std::int64_t j = 0; j < spec_.n; ++j) {
      const auto i = static_cast<std::size_t>(2 * j);
      if (spec_.bias) bias_.push_back(static_cast<std::int32_t>(reals[i] * 65536));
      scale_.push_back(size * fraction(reals[i + 1]));
    }
    requantise_.assign(1, static_cast<float>(127 / kLargestF16));
    if (activations_ == ActivationKind::s8) return;
    for (std::int64_t i = 0; i < m_; ++i) {
      row_scales_.push_back(fraction(reals[static_cast<std::size_t>(2 * spec_.n + i)]));
    }
  }

  ActivationKind activations_;
  std::vector<std::int32_t> bias_;
  std::vector<float> scale_, requantise_;
  std::vector<float> row_scales_;  ///< of all rows; of quantised ones, a stand-in for multiply()
  std::optional<PackedWeights> weights_;
  std::optional<AllGatherGemmDequant> op_;
};

}  // namespace

std::unique_ptr<Experiment> Experiment::make(const World& world, const MeasureSpec& spec) {
  if (spec.activations) return std::make_unique<DequantExperiment>(world, spec);
  return std::make_unique<GemmExperiment>(world, spec);
}

Experiment::Experiment(const World& world, const MeasureSpec& spec) : world_(world), spec_(spec) {
  const auto own = spec.rows.begin() + world.rank();
  m_ = std::accumulate(spec.rows.begin(), spec.rows.end(), std::int64_t{0});
  row0_ = std::accumulate(spec.rows.begin(), own, std::int64_t{0});
  own_rows_ = *own;
}

Matrix Experiment::b() {
  const DType type = spec_.activations ? DType::s8 : spec_.a_type;
  return spec_.b_layout == BLayout::kn ? dense(b_memory_.data(), type, spec_.k, spec_.n)
                                       : dense(b_memory_.data(), type, spec_.n, spec_.k);
}

StreamOptions Experiment::options() const {
  StreamOptions options = spec_.options;
  if (options.max_rows == 0) {
    options.max_rows =
        std::max<std::int64_t>(1, *std::max_element(spec_.rows.begin(), spec_.rows.end()));
  }
  return options;
}

Status Experiment::allocate() {
  const auto make = [](platform::PageBuffer& buffer, std::int64_t elements, DType type) {
    auto made = platform::PageBuffer::create(static_cast<std::size_t>(elements) * size_of(type),
                                             true, "a measurement's matrix");
    if (!made.ok()) return made.status();
    buffer = std::move(made).value();
    return buffer.touch();
  };
  const DType b_type = spec_.activations ? DType::s8 : spec_.a_type;
  const bool in_window = spec_.options.workspace == Workspace::direct;
  Status made = first_failure(make(a_memory_, in_window ? 0 : own_rows_ * spec_.k, given_type()),
                              make(b_memory_, spec_.k * spec_.n, b_type),
                              make(c_memory_, m_ * spec_.n, spec_.c_type),
                              make(gathered_memory_, m_ * spec_.k, travelling_type()));
  if (!made.ok()) return made;
  fill_random(b(), seed_b(spec_));
  return {};
}

Status Experiment::prepare() {
  if (Status status = create_operator(); !status.ok()) return status;
  if (Status status = refresh_input(); !status.ok()) return status;
  fill_random(a(), spec_.seed, row0_);
  return {};
}

Status Experiment::refresh_input() {
  if (spec_.options.workspace != Workspace::direct) return {};
  auto place = acquire_input();
  if (place.ok()) place_ = place->data;
  return place.status();
}

Matrix Experiment::a() {
  void* data = place_ != nullptr ? place_ : a_memory_.data();
  return dense(data, given_type(), own_rows_, spec_.k);
}

void Experiment::poison_c() { std::memset(c_memory_.data(), 0xff, c_memory_.size()); }

Result<Verification> Experiment::verify() {
  const double per_row = 2.0 * static_cast<double>(spec_.k) * static_cast<double>(spec_.n);
  const double affordable = std::max(1.0, reference_rate() / per_row);
  const auto count = static_cast<std::int64_t>(std::min(static_cast<double>(m_), affordable));

  // All rows, or evenly spread ones with the last among them.
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < count; ++i) rows.push_back((i + 1) * m_ / count - 1);
  const std::size_t row_bytes = static_cast<std::size_t>(spec_.n) * size_of(spec_.c_type);
  std::vector<std::byte> got(rows.size() * row_bytes), expected(got.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(got.data() + i * row_bytes, c().row(rows[i]), row_bytes);
  }
  const Matrix expected_view = dense(expected.data(), spec_.c_type, count, spec_.n);
  if (Status status = reference(rows, expected_view); !status.ok()) return status;
  auto comparison = compare(dense(got.data(), spec_.c_type, count, spec_.n), expected_view);
  if (!comparison.ok()) return comparison.status();
  return Verification{.rows = count, .comparison = *comparison};
}

}  // namespace tandem::op
