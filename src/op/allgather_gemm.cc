// SPDX-License-Identifier: Apache-2.0
//
// The operator AllGatherGemm: checks of its arguments; the work is Pipeline's.
#include "op/allgather_gemm_impl.h"
#include "op/validate.h"

namespace tandem {
namespace op {
namespace {

constexpr DType kOutputTypes[] = {DType::f32, DType::f16, DType::bf16};

}  // namespace

Status AllGatherGemmImpl::check(const AllGatherGemmCall& call, std::span<const std::int64_t> rows,
                                Phase phase) const {
  const PackedWeights& weights = core_->weights();
  Status status = core_->check_input(call.a, rows);
  if (status.ok() && phase == Phase::fused) {
    status = core_->check_output("c", call.c, kOutputTypes, weights.n(), rows, call.a);
  }
  if (status.ok() && call.gathered_a) {
    const DType types[] = {weights.type()};
    status = core_->check_output("gathered_a", *call.gathered_a, types, weights.k(), rows, call.a);
    if (status.ok() && phase == Phase::fused) {
      status = check_disjoint("c", call.c, "gathered_a", *call.gathered_a);
    }
  }
  return status;
}

Status AllGatherGemmImpl::run(const AllGatherGemmCall& call, Phase phase) {
  return core_->enter([&] {
    const std::span<const std::int64_t> rows = core_->rows_of(call.rows, call.a);
    const Status valid = base::guarded([&] { return check(call, rows, phase); });
    return core_->pipeline().run(
        {.a = call.a, .output = {.c = call.c, .gathered_a = call.gathered_a}}, rows, phase, valid);
  });
}

Status AllGatherGemmImpl::multiply(ConstMatrix gathered, std::span<const std::int64_t> rows,
                                   Matrix c) {
  return core_->enter(
      [&] { return core_->pipeline().multiply(gathered, nullptr, rows, {.c = c}); });
}

}  // namespace op

AllGatherGemm::AllGatherGemm(std::unique_ptr<op::AllGatherGemmImpl> impl)
    : impl_(std::move(impl)) {}
AllGatherGemm::AllGatherGemm(AllGatherGemm&&) noexcept = default;
AllGatherGemm& AllGatherGemm::operator=(AllGatherGemm&&) noexcept = default;
AllGatherGemm::~AllGatherGemm() = default;

Result<AllGatherGemm> AllGatherGemm::create(const World& world, Result<PackedWeights> weights,
                                            AllGatherGemmOptions options) {
  return base::guarded([&]() -> Result<AllGatherGemm> {
    std::unique_ptr<op::AllGatherGemmImpl> impl;
    const Status valid = base::guarded([&]() -> Status {
      impl = std::make_unique<op::AllGatherGemmImpl>();
      if (!weights.ok() || weights->type() != DType::s8) return {};
      return {
          StatusCode::kInvalidArgument,
          "the weights are s8; AllGatherGemm takes f16, bf16 or f32, AllGatherGemmDequant takes "
          "s8"};
    });
    auto core = op::OperatorCore::create(world, weights, {}, options, valid);
    if (!core.ok()) return core.status();
    impl->take(std::move(core).value());
    return AllGatherGemm(std::move(impl));
  });
}

Status AllGatherGemm::run(const AllGatherGemmCall& call) {
  return impl_->run(call, op::Phase::fused);
}
Result<Matrix> AllGatherGemm::acquire_input(std::int64_t rows) {
  return impl_->core().enter([&] { return impl_->core().acquire_input(rows); });
}
std::int64_t AllGatherGemm::chunks(std::int64_t rows) const {
  return impl_->core().pipeline().plan(rows).chunks();
}
std::int64_t AllGatherGemm::tile_m() const { return impl_->core().largest_plan().tile_m(); }
std::int64_t AllGatherGemm::tile_k() const { return impl_->core().largest_plan().tile_k(); }
std::int64_t AllGatherGemm::window_bytes() const { return impl_->core().pipeline().window_bytes(); }

}  // namespace tandem
