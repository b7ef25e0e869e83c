// SPDX-License-Identifier: Apache-2.0
//
// FailureText from and to Status.
#include "symm/failure_text.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace tandem::symm {

FailureText FailureText::of(const Status& failure, bool refused) {
  FailureText text;
  text.code = static_cast<std::uint32_t>(failure.code());
  text.has_wait = failure.wait().has_value() ? 1 : 0;
  text.refused = refused ? 1 : 0;
  text.wait = failure.wait().value_or(WaitDetail{});
  text.length = static_cast<std::uint32_t>(std::min(failure.message().size(), kMessageBytes));
  std::memcpy(text.message, failure.message().data(), text.length);
  return text;
}

Status FailureText::status() const {
  const bool known = code > static_cast<std::uint32_t>(StatusCode::kOk) &&
                     code <= static_cast<std::uint32_t>(StatusCode::kInternal);
  const auto kind = known ? static_cast<StatusCode>(code) : StatusCode::kInternal;
  std::string words(message, std::min<std::size_t>(length, kMessageBytes));
  if (has_wait != 0) return {kind, std::move(words), wait};
  return {kind, std::move(words)};
}

}  // namespace tandem::symm
