// SPDX-License-Identifier: Apache-2.0
//
// FailureRecord. A slot is written only while no failure stands, under its process's mutex, and
// the exchange that may choose it comes after: so a slot that was chosen is never written again.
#include "symm/failure_record.h"

#include "platform/delay.h"

namespace tandem::symm {

bool FailureRecord::publish(int writer, const FailureText& failure) {
  const std::lock_guard lock(writing_);
  if (published()) return false;
  const auto own = static_cast<std::uint32_t>(writer);
  slot(own).text = failure;
  platform::protocol_step("choose-failure");
  std::uint32_t none = 0;
  // Release: pairs with the acquire in chosen(). Relaxed when another was first: nothing is read.
  return choice_.chosen.compare_exchange_strong(none, own + 1, std::memory_order_release,
                                                std::memory_order_relaxed);
}

FailureText FailureRecord::text(std::uint32_t chosen) const {
  if (chosen <= static_cast<std::uint32_t>(ranks_)) return slot(chosen - 1).text;
  return FailureText::of({StatusCode::kInternal,
                          "the record of a failure in shared memory is damaged: a rank wrote where "
                          "it must not; restart all ranks"});
}

Status FailureRecord::read() const {
  const std::uint32_t who = chosen();
  return who == 0 ? Status() : text(who).status();
}

bool FailureRecord::refused() const {
  const std::uint32_t who = chosen();
  return who != 0 && text(who).refused != 0;
}

}  // namespace tandem::symm
