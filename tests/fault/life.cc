// SPDX-License-Identifier: Apache-2.0
//
// The ways, their problems and results.
#include "tests/fault/life.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tandem/reference.h"
#include "tests/fault/failing_new.h"

namespace tandem::testing_fault {
namespace {

constexpr std::int64_t kK = 192, kN = 40;

std::vector<std::byte> room(DType type, std::int64_t rows, std::int64_t cols) {
  return std::vector<std::byte>(static_cast<std::size_t>(rows * cols) * size_of(type));
}

/// A failure here is one of this program, not of what it tests.
void must(const Status& status) {
  if (!status.ok()) std::abort();
}

constexpr TransportSpec kFastLink{
    .kind = TransportKind::sim,
    .link = {.bytes_per_second = 1e9, .latency = std::chrono::microseconds(20)}};

}  // namespace

std::span<const Way> ways() {
  static const Way all[] = {
      {.name = "pull", .options = {.compute_threads = 2, .comm_threads = 2}},
      {.name = "push",
       .options = {.transfer = Transfer::push,
                   .workspace = Workspace::staged,
                   .stage_rows = 8,
                   .tile_m = 8}},
      {.name = "staged",
       .options = {.workspace = Workspace::staged, .stage_rows = 8, .stages = 3, .tile_m = 8}},
      {.name = "direct", .options = {.workspace = Workspace::direct}},
      {.name = "sim",
       .options = {.transport = kFastLink, .compute_threads = 2, .comm_threads = 2},
       .network = false},
      {.name = "sim_push",
       .options = {.transfer = Transfer::push, .transport = kFastLink},
       .network = false},
      {.name = "quantised", .options = {}, .activations = ActivationKind::quantised},
      {.name = "row_scaled",
       .options = {.transfer = Transfer::push, .compute_threads = 2},
       .activations = ActivationKind::s8_row_scaled},
  };
  return all;
}

Life::Life(const Way& way, int rank, int ranks, int scale)
    : way_(way),
      rank_(rank),
      options_(way.options),
      a_type_(!way.activations                                ? DType::f16
              : *way.activations == ActivationKind::quantised ? DType::f32
                                                              : DType::s8),
      b_type_(way.activations ? DType::s8 : DType::f16) {
  for (int r = 0; r < ranks; ++r) {
    rows_.push_back((1 + (r * 7 + 16) % 24) * scale);
    if (r < rank) row0_ += rows_.back();
    m_ += rows_.back();
  }
  options_.max_rows = 24 * scale;
  a_ = room(a_type_, m_, kK);
  b_ = room(b_type_, kK, kN);
  c_ = room(DType::f32, m_, kN);
  expected_ = c_;
  fill_random(dense(a_.data(), a_type_, m_, kK), 5);
  fill_random(dense(b_.data(), b_type_, kK, kN), 6);
  if (way.activations) {
    scale_ = 0.125F;
    for (std::int64_t n = 0; n < kN; ++n) bias_.push_back(static_cast<std::int32_t>(n * n) - 700);
    sums_.resize(static_cast<std::size_t>(m_ * kN));
    gathered_ = room(DType::s8, m_, kK);
    for (std::int64_t i = 0; i < m_; ++i) {
      row_scale_.push_back(0.5F + static_cast<float>(i % 5));
    }
  }
  make_reference();
}

void Life::make_reference() {
  const Matrix a = dense(a_.data(), a_type_, m_, kK), b = dense(b_.data(), b_type_, kK, kN),
               c = dense(expected_.data(), DType::f32, m_, kN);
  if (!way_.activations) {
    must(reference_gemm(a, b, BLayout::kn, c));
    return;
  }
  std::vector<std::byte> quantised = a_;
  if (a_type_ != DType::s8) {
    quantised = room(DType::s8, m_, kK);
    must(reference_quantise(a, dense(quantised.data(), DType::s8, m_, kK), row_scale_));
  }
  must(reference_gemm_dequant({.a = dense(quantised.data(), DType::s8, m_, kK),
                               .b = b,
                               .bias = bias_,
                               .dequantisation = {.scale = {&scale_, 1}},
                               .row_scale = row_scale_},
                              c));
}

ConstMatrix Life::own_a() const {
  const ConstMatrix all = dense(a_.data(), a_type_, m_, kK);
  return {all.row(row0_), a_type_, own_rows(), kK, kK};
}

Status Life::pack() {
  auto packed = PackedWeights::pack(dense(b_.data(), b_type_, kK, kN), {.bias = bias_});
  const Spared spared;
  if (!packed.ok()) return packed.status();
  weights_ = std::move(*packed);
  return {};
}

Status Life::create(const World& world) {
  if (way_.activations) {
    auto made = AllGatherGemmDequant::create(world, *weights_, {.scale = {&scale_, 1}}, options_,
                                             *way_.activations);
    const Spared spared;
    if (!made.ok()) return made.status();
    dequant_.emplace(std::move(*made));
    return {};
  }
  auto made = AllGatherGemm::create(world, *weights_, options_);
  const Spared spared;
  if (!made.ok()) return made.status();
  gemm_.emplace(std::move(*made));
  return {};
}

Status Life::run(ConstMatrix a, Matrix c) {
  if (gemm_) return gemm_->run({.a = a, .c = c, .rows = rows_});
  std::span<const float> scales;
  if (*way_.activations == ActivationKind::s8_row_scaled) {
    scales = std::span(row_scale_)
                 .subspan(static_cast<std::size_t>(row0_), static_cast<std::size_t>(own_rows()));
  }
  return dequant_->run({.a = a,
                        .c = c,
                        .row_scale = scales,
                        .rows = rows_,
                        .accumulators = dense(sums_.data(), DType::s32, m_, kN),
                        .gathered_a = dense(gathered_.data(), DType::s8, m_, kK)});
}

Status Life::call() {
  ConstMatrix a = own_a();
  if (options_.workspace == Workspace::direct) {
    auto place = gemm_->acquire_input(a.rows);
    const Spared spared;
    if (!place.ok()) return place.status();
    std::memcpy(place->data, a.data, static_cast<std::size_t>(a.rows * kK) * size_of(a_type_));
    a = *place;
  }
  std::fill(c_.begin(), c_.end(), std::byte{0xee});
  Status status = run(a, dense(c_.data(), DType::f32, m_, kN));
  if (!status.ok() || c_ == expected_) return status;
  const Spared spared;
  return {StatusCode::kInternal, "a call succeeded, and its result is wrong"};
}

void Life::destroy() {
  gemm_.reset();
  dequant_.reset();
}

Status Life::live(const World& world) {
  Status status = pack();
  if (status.ok()) status = create(world);
  for (int call_number = 0; status.ok() && call_number < 3; ++call_number) status = call();
  destroy();
  return status;
}

}  // namespace tandem::testing_fault
