// SPDX-License-Identifier: Apache-2.0
//
// The table of operators, and what its rows share.
#include "operators.h"

#include <cstring>

namespace tandem::tool {

const std::vector<const Operator*>& operators() {
  static const std::vector<const Operator*> table{&kAllGatherGemm, &kAllGatherGemmDequant};
  return table;
}

void fill_ones(Matrix m) {
  const auto fill = [&m](auto one) {
    for (std::int64_t i = 0; i < m.rows; ++i) {
      for (std::int64_t j = 0; j < m.cols; ++j) {
        std::memcpy(m.row(i) + j * static_cast<std::int64_t>(sizeof one), &one, sizeof one);
      }
    }
  };
  switch (m.type) {
    case DType::f16:
      return fill(std::uint16_t{0x3c00});
    case DType::bf16:
      return fill(std::uint16_t{0x3f80});
    case DType::f32:
      return fill(1.0F);
    case DType::s8:
      return fill(std::int8_t{1});
    case DType::s32:
      return fill(std::int32_t{1});
  }
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
  spec.options = job.stream_options();
  spec.bias = job.bias;
  spec.saturate = job.saturate;
  spec.iterations = job.iterations;
  spec.warmup = job.warmup;
  spec.time_budget = job.time_budget;
  spec.seed = job.seed;
  return spec;
}

}  // namespace tandem::tool
