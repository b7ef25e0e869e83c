// SPDX-License-Identifier: Apache-2.0
//
// FailureText: a failure as plain bytes, as it lies in shared memory (failure_record.h) and travels
// to other machines (note.h). Whoever reads one takes a copy first: who wrote it may still write.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/internal_api.h"
#include "tandem/status.h"

namespace tandem::symm {

struct TANDEM_INTERNAL_API FailureText {
  // Room for the longest message of the library, which names two ranks and two values.
  static constexpr std::size_t kMessageBytes = 1024;

  std::uint32_t code = 0;
  std::uint32_t has_wait = 0;
  std::uint32_t refused = 0;  ///< see FailureRecord::refused()
  std::uint32_t length = 0;
  WaitDetail wait;
  char message[kMessageBytes] = {};

  /// A longer message is cut.
  [[nodiscard]] static FailureText of(const Status& failure, bool refused = false);
  /// Never ok, whatever the bytes say: an unknown code is kInternal.
  [[nodiscard]] Status status() const;
};

}  // namespace tandem::symm
