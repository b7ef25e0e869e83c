// SPDX-License-Identifier: Apache-2.0
//
// AllGatherGemmDequant: every rank holds rows of A, every rank gets D = dequantise(A × B + bias), A
// and B s8, the product exact. What travels is s8, also when A is given in floats: then each rank
// quantises its rows as it sends them, one scale per row.
// Source: the CATCCOS "AllGather + MatMul + Dequant" operator for Ascend NPUs.
//
//   auto weights = PackedWeights::pack(b, {.bias = bias});
//   auto op = AllGatherGemmDequant::create(world, *weights, {.scale = scale}, {.max_rows = 512});
//   auto status = op->run({.a = my_rows, .c = my_c});
//
// Numerics are a contract (docs/numerics.md): the same bits for any number of ranks, threads,
// chunks, any workspace, transport and instruction set.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "tandem/export.h"
#include "tandem/matrix.h"
#include "tandem/status.h"
#include "tandem/stream_options.h"
#include "tandem/types.h"
#include "tandem/weights.h"
#include "tandem/world.h"

namespace tandem {

namespace op {
class AllGatherGemmDequantImpl;
}

/// How accumulators become outputs. Copied at creation.
///
/// acc is the exact s32 sum, bias included. f32 value = f32(acc) * scale[j], then * row_scale[i]
/// where rows have scales, each product rounded to nearest even; then one rounding to the output
/// type. s32 output is acc itself. s8 output is value * requantise[j] rounded to the nearest
/// integer, ties to even, and clamped to -128..127; a NaN becomes 0. A NaN scale gives NaN.
struct Dequantisation {
  std::span<const float> scale =
      {};  ///< one per column of B, or one for all; empty only for s32 output
  /// For s8 output: one factor per column, or one for all.
  std::span<const float> requantise = {};
  /// f16 and bf16 outputs beyond the largest finite value become that value, not infinity.
  bool saturate = false;
};

/// The arguments of one call. Every rank's call must agree on `rows` and on the kind of A.
struct AllGatherGemmDequantCall {
  /// This rank's rows: M_r × K. s8; or f32, f16 or bf16 when the operator was made with
  /// `quantise`: row i is then sent as q = round(a / s), s = max|a| / 127 but at least 2^-149 (1
  /// for a row of zeros; a row with NaN or infinity gives NaN outputs), and row_scale[i] = s.
  ConstMatrix a;
  /// Receives M × N: f16, bf16, f32, s32 or s8. Overwritten, never read.
  Matrix c;
  /// Scales of this rank's rows, M_r of them, when the operator was made with `row_scales`.
  std::span<const float> row_scale = {};
  /// Rows of every rank, in rank order. Empty means that every rank brings a.rows.
  std::span<const std::int64_t> rows = {};
  /// When set, also receives the accumulators, bias included: M × N, s32.
  std::optional<Matrix> accumulators = std::nullopt;
  /// When set, also receives the gathered A: M × K, s8.
  std::optional<Matrix> gathered_a = std::nullopt;
};

/// Which kind of A an operator takes.
enum class ActivationKind : std::uint8_t {
  s8,             ///< s8, no row scales
  s8_row_scaled,  ///< s8 with a scale per row, gathered along
  quantised,      ///< floats, quantised row by row on the way
};

/// A prepared operator: weights bound, window allocated, threads parked. Call it many times.
/// Thread-safety: one call at a time per operator; different operators may run concurrently.
class TANDEM_API AllGatherGemmDequant {
 public:
  /// Collective. Weights are s8, packed with their bias; K, `activations` and the options agree on
  /// all ranks. Refusals and errors as AllGatherGemm::create().
  static Result<AllGatherGemmDequant> create(const World& world, Result<PackedWeights> weights,
                                             const Dequantisation& dequantisation,
                                             StreamOptions options,
                                             ActivationKind activations = ActivationKind::s8);

  AllGatherGemmDequant(AllGatherGemmDequant&&) noexcept;
  AllGatherGemmDequant& operator=(AllGatherGemmDequant&&) noexcept;
  /// Not collective: a peer that still calls the operator afterwards gets kPeerLost.
  ~AllGatherGemmDequant();

  /// Collective; as AllGatherGemm::run().
  Status run(const AllGatherGemmDequantCall& call);

  /// As AllGatherGemm::acquire_input(): `rows` × K of s8. Not for ActivationKind::quantised.
  [[nodiscard]] Result<Matrix> acquire_input(std::int64_t rows);

  [[nodiscard]] std::int64_t chunks(std::int64_t rows) const;
  [[nodiscard]] std::int64_t tile_m() const;
  [[nodiscard]] std::int64_t tile_k() const;
  [[nodiscard]] std::int64_t window_bytes() const;

  [[nodiscard]] op::AllGatherGemmDequantImpl& impl() const { return *impl_; }

 private:
  explicit AllGatherGemmDequant(std::unique_ptr<op::AllGatherGemmDequantImpl> impl);
  std::unique_ptr<op::AllGatherGemmDequantImpl> impl_;
};

}  // namespace tandem
