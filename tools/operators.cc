// SPDX-License-Identifier: Apache-2.0
//
// The table of operators, and what its rows share.
#include "operators.h"

namespace tandem::tool {

const std::vector<const Operator*>& operators() {
  static const std::vector<const Operator*> table{&kAllGatherGemm, &kAllGatherGemmDequant};
  return table;
}

StreamOptions options_of(const Job& job) {
  return {.max_rows = job.max_rows(),
          .transfer = job.transfer,
          .transport = job.transport,
          .compute_threads = job.compute_threads,
          .comm_threads = job.comm_threads,
          .tile_m = job.tile_m,
          .tile_k = job.tile_k};
}

MeasureSpec measure_spec_of(const Job& job) {
  MeasureSpec spec;
  spec.rows = job.rows;
  spec.k = job.k;
  spec.n = job.n;
  spec.a_type = job.a_type;
  spec.c_type = job.c_type;
  spec.b_layout = job.b_layout;
  spec.kernel = job.kernel;
  spec.options = options_of(job);
  spec.iterations = job.iterations;
  spec.warmup = job.warmup;
  spec.seed = job.seed;
  return spec;
}

}  // namespace tandem::tool
