// SPDX-License-Identifier: Apache-2.0
//
// Creation of an operator on all ranks, and the checks that all operators share.
#include "op/operator_core.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "op/validate.h"

namespace tandem::op {
namespace {

constexpr DType kFloatTypes[] = {DType::f16, DType::bf16, DType::f32};

/// What the ranks must agree on, in the order of its names.
constexpr std::array<std::string_view, 13> kTermNames = {
    "K",        "the type of A", "row scales",   "quantisation", "max_rows",
    "transfer", "transport",     "comm_threads", "workspace",    "stage_rows",
    "stages",   "tile_m",        "tile_k"};

symm::Terms terms_of(const Travelling& what, bool quantises, const StreamOptions& options) {
  return {what.k,
          static_cast<std::int64_t>(what.type),
          what.row_scales,
          quantises,
          options.max_rows,
          static_cast<std::int64_t>(options.transfer),
          static_cast<std::int64_t>(options.transport.kind),
          options.comm_threads,
          static_cast<std::int64_t>(options.workspace),
          options.stage_rows,
          options.stages,
          options.tile_m,
          options.tile_k};
}

Status compare(const std::vector<symm::Terms>& all, int own) {
  const symm::Terms& mine = all[static_cast<std::size_t>(own)];
  for (std::size_t i = 0; i < kTermNames.size(); ++i) {
    for (std::size_t r = 0; r < all.size(); ++r) {
      if (all[r][i] == mine[i]) continue;
      return {StatusCode::kMismatch,
              fmt::format("ranks disagree on {}: rank {} has {}, rank {} has {}; create the "
                          "operator with the same values on every rank",
                          kTermNames[i], own, mine[i], r, all[r][i])};
    }
  }
  return {};
}

/// A world of several machines has a network of its own, any other has none.
Status settle_transport(const symm::World& world, TransportSpec& transport) {
  TransportKind& kind = transport.kind;
  const int machines = world.machines().count();
  if (kind == TransportKind::sim && machines > 1) {
    return {StatusCode::kInvalidArgument,
            fmt::format("transport sim needs one machine, and this world's ranks are on {}; use "
                        "mpi",
                        machines)};
  }
  if (kind == TransportKind::mpi && !world.meets_by_network()) {
    return {StatusCode::kInvalidArgument,
            "transport mpi needs a world made by tandem::mpi::make_world(), or `mpirun tandem`; "
            "use shm for ranks of one machine"};
  }
  if (kind != TransportKind::sim) kind = machines > 1 ? TransportKind::mpi : TransportKind::shm;
  if (kind == TransportKind::mpi) transport.link = world.link();
  return {};
}

}  // namespace

Result<std::unique_ptr<OperatorCore>> OperatorCore::create(const World& world,
                                                           const Result<PackedWeights>& weights,
                                                           Activations activations,
                                                           StreamOptions options,
                                                           const Status& valid) {
  const std::shared_ptr<symm::World>& ranks = world.impl();
  Travelling what;
  std::unique_ptr<OperatorCore> self;
  const Result<symm::Terms> own = base::guarded([&]() -> Result<symm::Terms> {
    if (!weights.ok()) return weights.status();
    if (!valid.ok()) return valid;
    what = {.k = weights->k(),
            .type = weights->type(),
            .row_scales = activations.row_scales || activations.quantises};
    if (options.timeout.count() == 0) options.timeout = world.timeout();
    Status status = check_stream_options(options, what.k, world.size());
    if (status.ok() && activations.quantises && options.workspace == Workspace::direct) {
      status = {StatusCode::kInvalidArgument,
                "workspace direct sends A as it is; rows that are quantised on the way need "
                "workspace full or staged"};
    }
    if (status.ok()) status = settle_transport(*ranks, options.transport);
    if (!status.ok()) return status;
    self.reset(new OperatorCore(ranks, *weights, options, activations.quantises));
    return terms_of(what, activations.quantises, options);
  });
  auto all = ranks->exchange(symm::Collective::create_operator, own);
  if (!all.ok()) return all.status();
  if (Status status = compare(*all, world.rank()); !status.ok()) return status;
  auto pipeline =
      Pipeline::create(ranks, self->weights_.impl(), what, activations.quantises, options);
  if (!pipeline.ok()) return pipeline.status();
  self->pipeline_ = std::move(pipeline).value();
  return self;
}

Status OperatorCore::busy() {
  return {
      StatusCode::kInvalidArgument,
      "another thread is in a call of this operator; an operator takes one call at a time: make "
      "the calls one after the other, or an operator for each thread"};
}

std::span<const std::int64_t> OperatorCore::rows_of(std::span<const std::int64_t> given,
                                                    const ConstMatrix& a) {
  if (!given.empty()) return given;
  std::fill(even_rows_.begin(), even_rows_.end(), a.rows);
  return even_rows_;
}

Status OperatorCore::check_input(const ConstMatrix& a, std::span<const std::int64_t> rows) const {
  if (static_cast<int>(rows.size()) != pipeline_->size()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("rows has {} entries for {} ranks; give the rows of every rank, or none",
                        rows.size(), pipeline_->size())};
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (rows[r] >= 0 && rows[r] <= options_.max_rows) continue;
    return {StatusCode::kInvalidArgument,
            fmt::format("rank {} brings {} rows; the operator was made for 0 to {}: create it with "
                        "a larger max_rows",
                        r, rows[r], options_.max_rows)};
  }
  const DType own_type[] = {weights_.type()};
  const std::span<const DType> types =
      quantises_ ? std::span<const DType>(kFloatTypes) : std::span<const DType>(own_type);
  const std::int64_t own = rows[static_cast<std::size_t>(pipeline_->rank())];
  Status status = check_matrix("a", a, types);
  if (status.ok()) status = check_shape("a", a, own, weights_.k());
  if (status.ok() && options_.workspace == Workspace::direct && own > 0 &&
      !pipeline_->is_in_place(a)) {
    status = {StatusCode::kInvalidArgument,
              "workspace direct reads A where it lies: write it to the place that acquire_input() "
              "gives, and pass that view as a"};
  }
  return status.ok() ? pipeline_->check_place(a) : status;
}

Status OperatorCore::check_output(std::string_view what, const Matrix& m,
                                  std::span<const DType> types, std::int64_t cols,
                                  std::span<const std::int64_t> rows, const ConstMatrix& a) const {
  const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  Status status = check_matrix(what, m, types);
  if (status.ok()) status = check_shape(what, m, total, cols);
  if (status.ok()) status = check_disjoint("a", a, what, m);
  if (status.ok() && pipeline_->in_window(m)) {
    status = {
        StatusCode::kInvalidArgument,
        fmt::format("{} lies in this operator's window, which holds rows of A; pass memory of "
                    "your own",
                    what)};
  }
  return status;
}

Result<Matrix> OperatorCore::acquire_input(std::int64_t rows) {
  if (options_.transfer != Transfer::pull) {
    return Status(StatusCode::kUnsupported,
                  "acquire_input needs transfer pull: with push a rank's window holds its peers' "
                  "rows; pass your own matrix to run() instead");
  }
  if (options_.workspace == Workspace::staged || quantises_) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("acquire_input needs room for a shard as it is; {}: pass your own "
                              "matrix to run() instead",
                              quantises_ ? "this operator quantises its rows on the way"
                                         : "workspace staged has room for a part of it"));
  }
  if (Status status = check_range("rows", rows, 0, options_.max_rows); !status.ok()) return status;
  return pipeline_->acquire_input(rows);
}

}  // namespace tandem::op
