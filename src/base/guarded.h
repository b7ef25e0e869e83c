// SPDX-License-Identifier: Apache-2.0
//
// guarded(): the edge at which what the standard library throws becomes a Status. Every public
// function, and every job of a thread of ours, is one call of it: inside, containers may fail to
// find memory; outside, nothing is ever thrown.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <utility>

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

}  // namespace tandem::base
