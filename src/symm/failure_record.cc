// SPDX-License-Identifier: Apache-2.0
//
// FailureRecord: who comes first writes; the others wait for a moment until it can be read.
#include "symm/failure_record.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace tandem::symm {

FailureRecord::Published FailureRecord::publish(const Status& failure, bool refused) {
  std::uint32_t none = kNone;
  // Nothing is read or passed on at this point, the exchange only elects a writer: relaxed.
  if (state_.compare_exchange_strong(none, kWriting, std::memory_order_relaxed)) {
    const std::string& message = failure.message();
    length_ = static_cast<std::uint32_t>(std::min(message.size(), kTextBytes));
    std::memcpy(text_, message.data(), length_);
    code_ = failure.code();
    refused_ = refused;
    has_wait_ = failure.wait().has_value();
    wait_ = failure.wait().value_or(WaitDetail{});
    // Release: pairs with the acquire in published().
    state_.store(kPublished, std::memory_order_release);
    return {failure, true};
  }
  // A writer killed between its two steps must not hold the others up: this long, then go on with
  // the failure at hand.
  constexpr std::chrono::milliseconds kWriterTakes{50};
  const auto end = platform::Clock::now() + kWriterTakes;
  while (!published()) {
    const auto now = platform::Clock::now();
    if (now >= end) return {failure, false};
    platform::sleep_until(now + std::chrono::microseconds(100));
  }
  return {read(), false};
}

Status FailureRecord::read() const {
  if (!published()) return {};
  std::string message(text_, std::min<std::size_t>(length_, kTextBytes));
  if (has_wait_) return {code_, std::move(message), wait_};
  return {code_, std::move(message)};
}

}  // namespace tandem::symm
