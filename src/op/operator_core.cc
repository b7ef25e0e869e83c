// SPDX-License-Identifier: Apache-2.0
//
// Creation of an operator on all ranks, and the checks that all operators share.
#include "op/operator_core.h"

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

Status check_agreement(symm::World& world, const Travelling& what, bool quantises,
                       const StreamOptions& options) {
  const symm::Terms own{what.k,
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
  auto all = world.exchange(own);
  if (!all.ok()) return all.status();
  for (std::size_t i = 0; i < kTermNames.size(); ++i) {
    for (std::size_t r = 0; r < all->size(); ++r) {
      if ((*all)[r][i] == own[i]) continue;
      return {StatusCode::kMismatch,
              fmt::format("ranks disagree on {}: rank {} has {}, rank {} has {}; create the "
                          "operator with the same values on every rank",
                          kTermNames[i], world.rank(), own[i], r, (*all)[r][i])};
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
                                                           PackedWeights weights,
                                                           const Travelling& what, bool quantises,
                                                           StreamOptions options) {
  if (Status status = check_stream_options(options, weights.k(), world.size()); !status.ok()) {
    return status;
  }
  if (quantises && options.workspace == Workspace::direct) {
    return Status(StatusCode::kInvalidArgument,
                  "workspace direct sends A as it is; rows that are quantised on the way need "
                  "workspace full or staged");
  }
  if (options.timeout.count() == 0) options.timeout = world.timeout();
  if (Status status = settle_transport(*world.impl(), options.transport); !status.ok()) {
    return status;
  }
  if (Status status = check_agreement(*world.impl(), what, quantises, options); !status.ok()) {
    return status;
  }
  std::unique_ptr<OperatorCore> self(new OperatorCore(std::move(weights), options, quantises));
  auto pipeline =
      Pipeline::create(world.impl(), self->weights_.impl(), what, quantises, self->options_);
  if (!pipeline.ok()) return pipeline.status();
  self->pipeline_ = std::move(pipeline).value();
  return self;
}

std::span<const std::int64_t> OperatorCore::rows_of(std::span<const std::int64_t> given,
                                                    const ConstMatrix& a) {
  if (!given.empty()) return given;
  even_rows_.assign(static_cast<std::size_t>(pipeline_->size()), a.rows);
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
  Status status =
      first_failure(check_matrix("a", a, types), check_shape("a", a, own, weights_.k()));
  if (status.ok() && options_.workspace == Workspace::direct && own > 0 &&
      !pipeline_->is_in_place(a)) {
    status = {StatusCode::kInvalidArgument,
              "workspace direct reads A where it lies: write it to the place that acquire_input() "
              "gives, and pass that view as a"};
  }
  return status;
}

Status OperatorCore::check_output(std::string_view what, const Matrix& m,
                                  std::span<const DType> types, std::int64_t cols,
                                  std::span<const std::int64_t> rows, const ConstMatrix& a) const {
  const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  return first_failure(check_matrix(what, m, types), check_shape(what, m, total, cols),
                       check_disjoint("a", a, what, m));
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
