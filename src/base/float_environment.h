// SPDX-License-Identifier: Apache-2.0
//
// FloatEnvironment: while one lives, its thread computes as the numerics contract says, whatever
// the caller has set: rounding to nearest even, subnormals kept. The engines make one where they
// begin to compute.
#pragma once

#include <cfenv>

namespace tandem::base {

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

}  // namespace tandem::base
