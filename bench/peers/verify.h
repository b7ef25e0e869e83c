// SPDX-License-Identifier: Apache-2.0
//
// Verifier: checks a peer's result before it is timed. The reference is computed once per element
// type and shape, for a sample of rows (all of N and K): first, last and evenly spread ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/peers/peer.h"

namespace tandem::bench {

struct Check {
  bool passed = false;
  std::string text;    ///< also says so where an s8 result is not exact: 16-bit saturation
  double seconds = 0;  ///< that the run took
};

class Verifier {
 public:
  explicit Verifier(const Problem& problem);
  /// Poisons the result, runs the prepared peer once and compares.
  [[nodiscard]] Check check(Peer& peer);

 private:
  struct Reference {
    std::vector<std::byte> c;  // sampled rows × N; empty until it is needed
  };
  Status make_reference(DType type);
  [[nodiscard]] Check compare_sample(const Matrix& result, const std::vector<std::byte>& reference,
                                     bool exact) const;

  const Problem& problem_;
  std::vector<std::int64_t> rows_;
  std::array<Reference, 5> references_;  // by DType
};

}  // namespace tandem::bench
