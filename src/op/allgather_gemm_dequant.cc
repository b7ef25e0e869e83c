// SPDX-License-Identifier: Apache-2.0
//
// The operator AllGatherGemmDequant: checks of its arguments; the work is Pipeline's.
#include <fmt/format.h>

#include "op/allgather_gemm_dequant_impl.h"
#include "op/validate.h"

namespace tandem {
namespace op {
namespace {

constexpr DType kOutputTypes[] = {DType::f16, DType::bf16, DType::f32, DType::s32, DType::s8};
constexpr DType kAccumulatorTypes[] = {DType::s32};
constexpr DType kGatheredTypes[] = {DType::s8};

/// One factor per column, `padded` in all; one for all is repeated.
std::vector<float> expand(std::span<const float> factors, std::int64_t n, std::int64_t padded) {
  std::vector<float> result(static_cast<std::size_t>(padded), 0.0F);
  for (std::int64_t j = 0; j < n && !factors.empty(); ++j) {
    result[static_cast<std::size_t>(j)] =
        factors.size() == 1 ? factors[0] : factors[static_cast<std::size_t>(j)];
  }
  return result;
}

Status check_factors(std::string_view what, std::span<const float> factors, std::int64_t n) {
  const auto size = static_cast<std::int64_t>(factors.size());
  if (size == 0 || size == 1 || size == n) return {};
  return {StatusCode::kInvalidArgument,
          fmt::format("{} has {} entries for {} columns; give one per column, or one for all", what,
                      size, n)};
}

Status missing(std::string_view what, DType type) {
  return {StatusCode::kInvalidArgument,
          fmt::format("c has type {}, which needs {}; give it in the Dequantisation when the "
                      "operator is made",
                      name(type), what)};
}

}  // namespace

Status AllGatherGemmDequantImpl::prepare(const block::PackedB& b, const Dequantisation& given) {
  Status valid = check_factors("scale", given.scale, b.n);
  if (valid.ok()) valid = check_factors("requantise", given.requantise, b.n);
  if (!valid.ok()) return valid;
  const std::int64_t padded = b.panels() * b.kernel->nr;
  if (!given.scale.empty()) scale_ = expand(given.scale, b.n, padded);
  if (!given.requantise.empty()) requantise_ = expand(given.requantise, b.n, padded);
  factors_ = {.bias = b.bias,
              .scale = scale_.empty() ? nullptr : scale_.data(),
              .requantise = requantise_.empty() ? nullptr : requantise_.data(),
              .saturate = given.saturate};
  return {};
}

Status AllGatherGemmDequantImpl::check_scales(const AllGatherGemmDequantCall& call) const {
  const bool wanted = activations_ == ActivationKind::s8_row_scaled;
  const std::int64_t needed = wanted ? call.a.rows : 0;
  const auto size = static_cast<std::int64_t>(call.row_scale.size());
  if (size == needed) return {};
  return {StatusCode::kInvalidArgument,
          fmt::format("row_scale has {} entries; {} rows of {} need {}", size, call.a.rows,
                      wanted ? "row-scaled activations" : "activations without given row scales",
                      needed)};
}

Status AllGatherGemmDequantImpl::check(const AllGatherGemmDequantCall& call,
                                       std::span<const std::int64_t> rows, Phase phase) const {
  const PackedWeights& weights = core_->weights();
  Status status = core_->check_input(call.a, rows);
  if (status.ok()) status = check_scales(call);
  if (status.ok() && phase == Phase::fused) {
    status = core_->check_output("c", call.c, kOutputTypes, weights.n(), rows, call.a);
    if (status.ok() && call.c.type != DType::s32 && factors_.scale == nullptr) {
      status = missing("scale", call.c.type);
    }
    if (status.ok() && call.c.type == DType::s8 && factors_.requantise == nullptr) {
      status = missing("requantise", call.c.type);
    }
  }
  if (status.ok() && call.accumulators) {
    status = first_failure(core_->check_output("accumulators", *call.accumulators,
                                               kAccumulatorTypes, weights.n(), rows, call.a),
                           check_disjoint("c", call.c, "accumulators", *call.accumulators));
  }
  if (status.ok() && call.gathered_a) {
    status = core_->check_output("gathered_a", *call.gathered_a, kGatheredTypes, weights.k(), rows,
                                 call.a);
    if (status.ok() && phase == Phase::fused) {
      status = check_disjoint("c", call.c, "gathered_a", *call.gathered_a);
    }
    if (status.ok() && call.accumulators) {
      status = check_disjoint("accumulators", *call.accumulators, "gathered_a", *call.gathered_a);
    }
  }
  return status;
}

Status AllGatherGemmDequantImpl::run(const AllGatherGemmDequantCall& call, Phase phase) {
  return core_->enter([&] {
    const std::span<const std::int64_t> rows = core_->rows_of(call.rows, call.a);
    const Status valid = base::guarded([&] { return check(call, rows, phase); });
    return core_->pipeline().run({.a = call.a,
                                  .row_scale = call.row_scale.data(),
                                  .output = {.c = call.c,
                                             .dequantisation = &factors_,
                                             .accumulators = call.accumulators,
                                             .gathered_a = call.gathered_a}},
                                 rows, phase, valid);
  });
}

Status AllGatherGemmDequantImpl::multiply(ConstMatrix gathered, const float* row_scales,
                                          std::span<const std::int64_t> rows, Matrix c) {
  return core_->enter([&] {
    return core_->pipeline().multiply(gathered, row_scales, rows,
                                      {.c = c, .dequantisation = &factors_});
  });
}

}  // namespace op

AllGatherGemmDequant::AllGatherGemmDequant(std::unique_ptr<op::AllGatherGemmDequantImpl> impl)
    : impl_(std::move(impl)) {}
AllGatherGemmDequant::AllGatherGemmDequant(AllGatherGemmDequant&&) noexcept = default;
AllGatherGemmDequant& AllGatherGemmDequant::operator=(AllGatherGemmDequant&&) noexcept = default;
AllGatherGemmDequant::~AllGatherGemmDequant() = default;

Result<AllGatherGemmDequant> AllGatherGemmDequant::create(const World& world,
                                                          Result<PackedWeights> weights,
                                                          const Dequantisation& dequantisation,
                                                          StreamOptions options,
                                                          ActivationKind activations) {
  return base::guarded([&]() -> Result<AllGatherGemmDequant> {
    std::unique_ptr<op::AllGatherGemmDequantImpl> impl;
    const Status valid = base::guarded([&]() -> Status {
      impl = std::make_unique<op::AllGatherGemmDequantImpl>(activations);
      if (!weights.ok()) return {};
      if (weights->type() == DType::s8) return impl->prepare(weights->impl(), dequantisation);
      return {
          StatusCode::kInvalidArgument,
          fmt::format("the weights are {}; AllGatherGemmDequant takes s8", name(weights->type()))};
    });
    const op::Activations kind{.row_scales = activations != ActivationKind::s8,
                               .quantises = activations == ActivationKind::quantised};
    auto core = op::OperatorCore::create(world, weights, kind, options, valid);
    if (!core.ok()) return core.status();
    impl->take(std::move(core).value());
    return AllGatherGemmDequant(std::move(impl));
  });
}

Status AllGatherGemmDequant::run(const AllGatherGemmDequantCall& call) {
  return impl_->run(call, op::Phase::fused);
}
Result<Matrix> AllGatherGemmDequant::acquire_input(std::int64_t rows) {
  return impl_->core().enter([&] { return impl_->core().acquire_input(rows); });
}
std::int64_t AllGatherGemmDequant::chunks(std::int64_t rows) const {
  return impl_->core().pipeline().plan(rows).chunks();
}
std::int64_t AllGatherGemmDequant::tile_m() const { return impl_->core().largest_plan().tile_m(); }
std::int64_t AllGatherGemmDequant::tile_k() const { return impl_->core().largest_plan().tile_k(); }
std::int64_t AllGatherGemmDequant::window_bytes() const {
  return impl_->core().pipeline().window_bytes();
}

}  // namespace tandem
