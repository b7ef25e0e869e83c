// SPDX-License-Identifier: Apache-2.0
//
// An operator new that fails on demand, in place of the program's own: linked into a program,
// failing_new.cc replaces all forms of it, for the library and for every thread. Without a demand
// it counts and does what malloc does.
#pragma once

#include <cstdint>

namespace tandem::testing_fault {

enum class Failing {
  once,       ///< one allocation fails, all later ones succeed
  from_here,  ///< that one and all later ones fail
};

/// From now on allocations are counted, and the `number`-th, from 1, of whatever thread fails; 0
/// counts only. Call it while no other thread allocates, as stop_failing().
void fail_allocation(std::uint64_t number, Failing how);
/// Ends it. Returns how many allocations were counted.
std::uint64_t stop_failing();

/// Writes where the last failing allocation came from, as the numbers that addr2line takes, to a
/// descriptor. Async-signal-safe.
void write_stack_of_failure(int fd);

/// As long as one lives, what its thread allocates is neither counted nor refused: the test's own.
class Spared {
 public:
  Spared();
  ~Spared();
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;
};

}  // namespace tandem::testing_fault
