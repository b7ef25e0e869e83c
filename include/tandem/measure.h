// SPDX-License-Identifier: Apache-2.0
//
// Measures an operator as the seed does: compute only, communication only, one after the other,
// and fused. All ranks start each run together, a time is the maximum over ranks, modes are
// interleaved so that ratios hold on a noisy machine, and the result of the last timed run is
// verified. What `tandem bench` prints comes from here.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tandem/allgather_gemm.h"
#include "tandem/allgather_gemm_dequant.h"
#include "tandem/export.h"

namespace tandem {

/// Milliseconds over the timed iterations.
struct Timing {
  double median = 0, min = 0, max = 0;
};

struct MeasureSpec {
  std::vector<std::int64_t> rows;  ///< rows of every rank, in rank order
  std::int64_t k = 0, n = 0;
  DType a_type = DType::f16;  ///< of A, and of B unless that is s8
  DType c_type = DType::f32;
  BLayout b_layout = BLayout::kn;
  std::string kernel = "auto";
  /// When set, AllGatherGemmDequant is measured, with this kind of A (a_type s8, or a float type to
  /// be quantised) and B in s8; otherwise AllGatherGemm.
  std::optional<ActivationKind> activations = std::nullopt;
  bool bias = true, saturate = false;  ///< of AllGatherGemmDequant: a random bias; Dequantisation's
  StreamOptions options;               ///< max_rows 0 = the largest of `rows`
  int iterations = 10;                 ///< timed runs per mode, at least 1
  int warmup = 5;                      ///< untimed runs per mode, at least 0
  /// When above 0, no round (one run of each mode) begins that would probably end later than this
  /// after the first began. Of fewer rounds than asked for at most a third are warm-up; one is
  /// always run. Inputs and verification are not counted.
  std::chrono::milliseconds time_budget{0};
  std::uint64_t seed = 1;
  /// Called on rank 0 after each step with the fraction done, 0..1; may be empty.
  std::function<void(double)> progress;
};

struct Measurement {
  Timing compute_only_ms;         ///< the same kernels over an already gathered local A
  Timing comm_only_ms;            ///< a real AllGather of A into every rank's memory
  Timing sequential_ms;           ///< the gather, then the multiply
  Timing pipelined_ms;            ///< the fused operator
  double speedup = 0;             ///< sequential / pipelined
  double overlap_efficiency = 0;  ///< (comm + compute − pipelined) / min(comm, compute), unclamped
  double pipelined_over_max = 0;  ///< pipelined / max(comm, compute)
  double exposed_comm_ms = 0;     ///< pipelined − compute
  /// CPU time of a rank's process in the pipelined run beyond compute-only: what communication
  /// costs its cores. Of the rank with most; where ranks are threads, of all of them together.
  double comm_cpu_ms = 0;
  double gflops_per_rank = 0;  ///< 2·M·K·N / pipelined
  int iterations = 0;          ///< timed runs per mode: as asked for, or what the budget allowed
  bool verified = false;       ///< the last timed fused result equals the reference bit for bit
  std::int64_t verified_rows = 0;  ///< rows of C compared (all M, or a sample when M·K·N is large)
  std::string mismatch;            ///< where the first wrong element is, when not verified
  std::string kernel;              ///< target of the kernel that ran
  std::int64_t chunks_per_source = 0;  ///< of the largest shard
  std::int64_t tile_m = 0, tile_k = 0;
  std::int64_t window_bytes = 0;
  double peak_rss_mib = 0;  ///< this process's peak resident memory during the measurement
};

/// Collective; the same spec on every rank. Each rank gets the same figures (of all ranks
/// together), `peak_rss_mib` apart.
[[nodiscard]] TANDEM_API Result<Measurement> measure(const World& world, const MeasureSpec& spec);

}  // namespace tandem
