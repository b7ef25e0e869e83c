// SPDX-License-Identifier: Apache-2.0
//
// Which instruction sets this CPU has. On x86-64 a wide register set counts only when the
// operating system saves it across context switches (XCR0); virtual machines and old kernels
// may not. Called through topology.h.
#include "platform/topology.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace tandem::platform {
namespace {

#if defined(__x86_64__)

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

bool bit(unsigned word, int index) { return ((word >> index) & 1u) != 0; }

/// Register sets that the operating system saves. Spelt in bytes by older assemblers, as an
/// intrinsic only under -mxsave; inline assembly works everywhere.
unsigned saved_state() {
  unsigned low = 0, high = 0;
  __asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// XCR0: SSE and AVX state (bits 1, 2); mask, upper ZMM and ZMM16-31 state (bits 5, 6, 7).
constexpr unsigned kAvxState = 0x06;
constexpr unsigned kAvx512State = 0xe6;

base::CpuFeatures read_features() {
  base::CpuFeatures cpu;
  // Bit positions: Intel SDM volume 2, CPUID, leaves 1, 7.0 and 7.1.
  const Registers basic = cpuid(1, 0);
  constexpr int kOsxsave = 27;
  const unsigned saved = bit(basic.c, kOsxsave) ? saved_state() : 0;
  if ((saved & kAvxState) != kAvxState) return cpu;
  const Registers extended = cpuid(7, 0);
  const Registers more = extended.a >= 1 ? cpuid(7, 1) : Registers();
  cpu.fma = bit(basic.c, 12);
  cpu.f16c = bit(basic.c, 29);
  cpu.avx2 = bit(extended.b, 5);
  cpu.avx_vnni = bit(more.a, 4);
  if ((saved & kAvx512State) != kAvx512State) return cpu;
  cpu.avx512f = bit(extended.b, 16);
  cpu.avx512dq = bit(extended.b, 17);
  cpu.avx512bw = bit(extended.b, 30);
  cpu.avx512vl = bit(extended.b, 31);
  cpu.avx512_vnni = bit(extended.c, 11);
  cpu.avx512_bf16 = bit(more.a, 5);
  return cpu;
}

#elif defined(__aarch64__)

base::CpuFeatures read_features() {
  base::CpuFeatures cpu;
  const unsigned long first = getauxval(AT_HWCAP);
  const unsigned long second = getauxval(AT_HWCAP2);
  // HWCAP2_I8MM and HWCAP2_BF16, missing from older headers.
  constexpr unsigned long kI8mm = 1UL << 13, kBf16 = 1UL << 14;
  cpu.neon = (first & HWCAP_ASIMD) != 0;
  cpu.dotprod = (first & HWCAP_ASIMDDP) != 0;
  cpu.i8mm = (second & kI8mm) != 0;
  cpu.bf16 = (second & kBf16) != 0;
  return cpu;
}

#else

base::CpuFeatures read_features() { return {}; }

#endif

}  // namespace

base::CpuFeatures cpu_features() {
  static const base::CpuFeatures features = read_features();
  return features;
}

}  // namespace tandem::platform
