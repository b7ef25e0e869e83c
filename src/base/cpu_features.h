// SPDX-License-Identifier: Apache-2.0
//
// The instruction sets and caches that kernel selection asks about, as plain data: platform/
// fills them in from the machine, tests fill them in by hand.
#pragma once

#include <cstdint>

namespace tandem::base {

struct CpuFeatures {
  bool avx2 = false, fma = false, f16c = false;
  bool avx512f = false, avx512bw = false, avx512dq = false, avx512vl = false;
  bool avx512_vnni = false, avx512_bf16 = false, avx_vnni = false;
  bool neon = false, dotprod = false, i8mm = false, bf16 = false;
};

struct CacheSizes {
  std::int64_t l1d = 32 << 10;  ///< bytes per core
  std::int64_t l2 = 512 << 10;  ///< bytes per core
  std::int64_t l3 = 8 << 20;    ///< bytes per group of cores that share it; 0 when there is none
};

}  // namespace tandem::base
