// SPDX-License-Identifier: Apache-2.0
//
// guarded(): the edge of the library. Every public function, and every job of a thread of ours, is
// one call of it: inside, containers may fail to find memory, and floats behave as the contract
// says; outside, nothing is ever thrown, and the caller's floating-point environment is as it was.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <utility>

#include "base/float_environment.h"
#include "tandem/status.h"

namespace tandem::base {

/// kOutOfMemory in a text so short that a std::string holds it without allocating.
[[nodiscard]] inline Status out_of_memory() noexcept {
  return {StatusCode::kOutOfMemory, "out of memory"};
}

/// work(), which returns a Status or a Result. Errors: kOutOfMemory for memory that could not be
/// had (or sizes that no memory has), kInternal for anything else that was thrown.
template <class Work>
[[nodiscard]] auto guarded(Work&& work) noexcept -> decltype(work()) {
  const FloatEnvironment environment;
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::length_error&) {
    return out_of_memory();
  } catch (...) {
    return Status(StatusCode::kInternal, "a bug in Tandem");  // as short, for the same reason
  }
}

/// The same edge for what cannot return a Status: work(), or `otherwise` where that throws.
template <class Work>
[[nodiscard]] auto guarded_or(decltype(std::declval<Work>()()) otherwise, Work&& work) noexcept
    -> decltype(work()) {
  const FloatEnvironment environment;
  try {
    return std::forward<Work>(work)();
  } catch (...) {
    return otherwise;
  }
}

}  // namespace tandem::base
