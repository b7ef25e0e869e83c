// SPDX-License-Identifier: Apache-2.0
//
// FloatEnvironment: while one lives, its thread computes as the numerics contract says, whatever
// the caller has set: rounding to nearest even, subnormals kept, nothing traps. Then the caller's
// environment is back as it was, its flags included: what was raised inside is dropped. guarded()
// makes one at the edge of every public function and of every job of a thread (threads inherit the
// environment of whoever starts them); the engines, which tests call without that, make their own.
//
// In instructions, not by <cfenv>: that takes 300 ns instead of 10 (Xeon), and C libraries leave
// what C has no name for (denormals are zero, their trap, the other half precision of Arm).
#pragma once

#include <cfenv>
#include <cstdint>

namespace tandem::base {

#if defined(__x86_64__)
class FloatEnvironment {
 public:
  FloatEnvironment() {
    // The memory clobbers keep the loads and stores of the work inside.
    asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(sse_), "=m"(x87_)::"memory");
    asm volatile("ldmxcsr %0" ::"m"(kSse) : "memory");
    // Only what the C++ library and others compute in long double; nothing of ours raises a flag.
    if (x87_ != kX87) asm volatile("fldcw %0" ::"m"(kX87) : "memory");
  }
  ~FloatEnvironment() {
    asm volatile("ldmxcsr %0" ::"m"(sse_) : "memory");
    if (x87_ != kX87) asm volatile("fldcw %0" ::"m"(x87_) : "memory");
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  // What a process starts with: all traps masked, to nearest even, no flush to zero.
  static constexpr std::uint32_t kSse = 0x1f80;
  static constexpr std::uint16_t kX87 = 0x037f;
  std::uint32_t sse_ = 0;
  std::uint16_t x87_ = 0;
};
#elif defined(__aarch64__)
class FloatEnvironment {
 public:
  FloatEnvironment() {
    asm volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control_), "=r"(flags_)::"memory");
    asm volatile("msr fpcr, xzr" ::: "memory");
  }
  ~FloatEnvironment() {
    asm volatile("msr fpcr, %0\n\tmsr fpsr, %1" ::"r"(control_), "r"(flags_) : "memory");
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  std::uint64_t control_ = 0, flags_ = 0;
};
#else
class FloatEnvironment {
 public:
  FloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatEnvironment() { std::fesetenv(&saved_); }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};
#endif

/// The word that says how a thread computes, and the bits in it by which subnormals are flushed.
#if defined(__x86_64__)
using FloatControl = std::uint32_t;
inline constexpr FloatControl kFlushing = 0x8040;  // MXCSR's FTZ and DAZ
inline FloatControl float_control() {
  FloatControl word = 0;
  asm volatile("stmxcsr %0" : "=m"(word)::"memory");
  return word;
}
inline void set_float_control(FloatControl word) {
  asm volatile("ldmxcsr %0" ::"m"(word) : "memory");
}
#elif defined(__aarch64__)
using FloatControl = std::uint64_t;
inline constexpr FloatControl kFlushing = 1U << 24;  // FPCR.FZ
inline FloatControl float_control() {
  FloatControl word = 0;
  asm volatile("mrs %0, fpcr" : "=r"(word)::"memory");
  return word;
}
inline void set_float_control(FloatControl word) {
  asm volatile("msr fpcr, %0" ::"r"(word) : "memory");
}

/// Says since its making whether the thread has flushed a result, for CPUs whose rule is not that
/// of the contract: Arm decides before rounding what is too small.
class FlushedResults {
 public:
  FlushedResults() { asm volatile("msr fpsr, xzr" ::: "memory"); }
  [[nodiscard]] bool any() const {
    constexpr std::uint64_t kUfc = 1U << 3;
    std::uint64_t flags = 0;
    asm volatile("mrs %0, fpsr" : "=r"(flags)::"memory");
    return (flags & kUfc) != 0;
  }
};
#else
// No such mode that C++ knows of: only the scalar kernel runs here, which needs none.
using FloatControl = int;
inline constexpr FloatControl kFlushing = 0;
inline FloatControl float_control() { return 0; }
inline void set_float_control(FloatControl) {}
#endif

/// While one lives, its thread takes subnormal operands for zeros and gives zeros for subnormal
/// results, within a FloatEnvironment: what FMA kernels need for the bf16 sum (docs/numerics.md).
/// `wanted` false changes nothing.
class SubnormalsFlushed {
 public:
  explicit SubnormalsFlushed(bool wanted) : wanted_(wanted) {
    if (!wanted_) return;
    before_ = float_control();
    set_float_control(before_ | kFlushing);
  }
  ~SubnormalsFlushed() {
    if (wanted_) set_float_control(before_);
  }
  SubnormalsFlushed(const SubnormalsFlushed&) = delete;
  SubnormalsFlushed& operator=(const SubnormalsFlushed&) = delete;

 private:
  const bool wanted_;
  FloatControl before_ = 0;
};

}  // namespace tandem::base
