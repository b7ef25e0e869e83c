// SPDX-License-Identifier: Apache-2.0
//
// The operator AllGatherGemm: checks of options and arguments; the work is Pipeline's.
#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "op/allgather_gemm_impl.h"
#include "op/validate.h"

namespace tandem {
namespace op {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
constexpr int kMaxThreads = 1024;
constexpr DType kOutputTypes[] = {DType::f32, DType::f16, DType::bf16};

Status check_options(const AllGatherGemmOptions& options, const PackedWeights& weights, int ranks) {
  Status status = first_failure(
      check_range("max_rows", options.max_rows, 1, kNoLimit),
      check_range("compute_threads", options.compute_threads, 1, kMaxThreads),
      check_range("comm_threads", options.comm_threads, 1, kMaxLanes),
      check_range("stage_rows", options.stage_rows, 0, kNoLimit),
      check_range("stages", options.stages, 1, kMaxStages),
      check_range("tile_m", options.tile_m, 0, kNoLimit),
      check_range("tile_k", options.tile_k, 0, kNoLimit),
      check_range("timeout (ms)", options.timeout.count(), 0, 1000LL * 60 * 60 * 24 * 365));
  if (!status.ok()) return status;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(options.max_rows, weights.k(), &elements) ||
      __builtin_mul_overflow(elements, std::int64_t{16} * ranks, &bytes)) {
    return {StatusCode::kInvalidArgument,
            fmt::format("max_rows is {} and K is {}: the window would exceed 2^63 bytes; lower "
                        "max_rows to what a call can bring",
                        options.max_rows, weights.k())};
  }
  if (options.transport.kind == TransportKind::sim &&
      !(options.transport.link.bytes_per_second > 0)) {
    return {StatusCode::kInvalidArgument,
            fmt::format("link bandwidth is {} bytes/s; it must be above 0",
                        options.transport.link.bytes_per_second)};
  }
  return {};
}

/// What the ranks must agree on, in the order of its names.
constexpr std::array<std::string_view, 10> kTermNames = {
    "K", "the type of A", "max_rows", "transfer", "transport", "comm_threads", "tile_m", "tile_k"};

Status check_agreement(symm::World& world, const PackedWeights& weights,
                       const AllGatherGemmOptions& options) {
  const symm::Terms own{weights.k(),
                        static_cast<std::int64_t>(weights.type()),
                        options.max_rows,
                        static_cast<std::int64_t>(options.transfer),
                        static_cast<std::int64_t>(options.transport.kind),
                        options.comm_threads,
                        options.tile_m,
                        options.tile_k,
                        options.stage_rows,
                        options.stages};
  auto all = world.exchange(own);
  if (!all.ok()) return all.status();
  for (std::size_t i = 0; i < kTermNames.size(); ++i) {
    for (std::size_t r = 0; r < all->size(); ++r) {
      if ((*all)[r][i] == own[i]) continue;
      return {
          StatusCode::kMismatch,
          fmt::format("ranks disagree on {}: rank {} has {}, rank {} has {}; create the operator "
                      "with the same values on every rank",
                      kTermNames[i], world.rank(), own[i], r, (*all)[r][i])};
    }
  }
  return {};
}

}  // namespace

Status AllGatherGemmImpl::check(const AllGatherGemmCall& call, std::span<const std::int64_t> rows,
                                Phase phase) const {
  const int rank = pipeline_->rank();
  if (static_cast<int>(rows.size()) != pipeline_->size()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("rows has {} entries for {} ranks; give the rows of every rank, or none",
                        rows.size(), pipeline_->size())};
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (rows[r] >= 0 && rows[r] <= options_.max_rows) continue;
    return {
        StatusCode::kInvalidArgument,
        fmt::format("rank {} brings {} rows; the operator was made for 0 to {}: create it with a "
                    "larger max_rows",
                    r, rows[r], options_.max_rows)};
  }
  const DType a_types[] = {weights_.type()};
  const std::int64_t m = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  Status status =
      first_failure(check_matrix("a", call.a, a_types),
                    check_shape("a", call.a, rows[static_cast<std::size_t>(rank)], weights_.k()));
  if (status.ok() && phase == Phase::fused) {
    status = first_failure(check_matrix("c", call.c, kOutputTypes),
                           check_shape("c", call.c, m, weights_.n()),
                           check_disjoint("a", call.a, "c", call.c));
  }
  if (status.ok() && call.gathered_a) {
    const Matrix& gathered = *call.gathered_a;
    status = first_failure(check_matrix("gathered_a", gathered, a_types),
                           check_shape("gathered_a", gathered, m, weights_.k()),
                           check_disjoint("a", call.a, "gathered_a", gathered));
    if (status.ok() && phase == Phase::fused) {
      status = check_disjoint("c", call.c, "gathered_a", gathered);
    }
  }
  return status;
}

Status AllGatherGemmImpl::run(const AllGatherGemmCall& call, Phase phase) {
  std::vector<std::int64_t> even;
  std::span<const std::int64_t> rows = call.rows;
  if (rows.empty()) {
    even.assign(static_cast<std::size_t>(pipeline_->size()), call.a.rows);
    rows = even;
  }
  if (Status status = check(call, rows, phase); !status.ok()) return status;
  return pipeline_->run(call, rows, phase);
}

Result<Matrix> AllGatherGemmImpl::acquire_input(std::int64_t rows) {
  if (options_.transfer != Transfer::pull) {
    return Status(StatusCode::kUnsupported,
                  "acquire_input needs transfer pull: with push a rank's window holds its peers' "
                  "rows; pass your own matrix to run() instead");
  }
  if (Status status = check_range("rows", rows, 0, options_.max_rows); !status.ok()) return status;
  if (options_.stage_rows < options_.max_rows) {
    return Status(
        StatusCode::kUnsupported,
        fmt::format("acquire_input needs room for a whole shard: stage_rows is {}, max_rows "
                    "{}; leave stage_rows 0",
                    options_.stage_rows, options_.max_rows));
  }
  return pipeline_->acquire_input(rows);
}

}  // namespace op

AllGatherGemm::AllGatherGemm(std::unique_ptr<op::AllGatherGemmImpl> impl)
    : impl_(std::move(impl)) {}
AllGatherGemm::AllGatherGemm(AllGatherGemm&&) noexcept = default;
AllGatherGemm& AllGatherGemm::operator=(AllGatherGemm&&) noexcept = default;
AllGatherGemm::~AllGatherGemm() = default;

Result<AllGatherGemm> AllGatherGemm::create(const World& world, PackedWeights weights,
                                            AllGatherGemmOptions options) {
  if (Status status = op::check_options(options, weights, world.size()); !status.ok())
    return status;
  if (options.timeout.count() == 0) options.timeout = world.timeout();
  if (options.stage_rows == 0) options.stage_rows = options.max_rows;
  options.stage_rows = std::min(options.stage_rows, options.max_rows);
  if (Status status = op::check_agreement(*world.impl(), weights, options); !status.ok()) {
    return status;
  }
  auto pipeline = op::Pipeline::create(world.impl(), weights.impl(), options);
  if (!pipeline.ok()) return pipeline.status();
  return AllGatherGemm(std::make_unique<op::AllGatherGemmImpl>(std::move(pipeline).value(),
                                                               std::move(weights), options));
}

Status AllGatherGemm::run(const AllGatherGemmCall& call) {
  return impl_->run(call, op::Phase::fused);
}
Result<Matrix> AllGatherGemm::acquire_input(std::int64_t rows) {
  return impl_->acquire_input(rows);
}
std::int64_t AllGatherGemm::chunks(std::int64_t rows) const {
  return impl_->pipeline().plan(rows).chunks();
}
std::int64_t AllGatherGemm::tile_m() const {
  return impl_->pipeline().plan(impl_->options().max_rows).tile_m();
}
std::int64_t AllGatherGemm::tile_k() const {
  return impl_->pipeline().plan(impl_->options().max_rows).tile_k();
}
std::int64_t AllGatherGemm::window_bytes() const { return impl_->pipeline().window_bytes(); }

}  // namespace tandem
