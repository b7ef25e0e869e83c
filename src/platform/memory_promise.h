// SPDX-License-Identifier: Apache-2.0
//
// MemoryPromise: memory that somebody is about to touch. Ranks that load at once would each see the
// same free memory and then all take it; so each promises first what it is going to take, and what
// others have promised but not yet touched counts as taken. Made by PageBuffer and by
// symm::World::create_window(). Start reading at make() in memory_promise.cc.
//
// A process keeps one sum of its promises. Once it belongs to a world it shows that sum to the
// other processes of its machine, in words that symm/ provides (SharedPromises).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "platform/memory.h"
#include "tandem/status.h"

namespace tandem::platform {

/// What one process shows the others.
struct PromisedWords {
  std::atomic<std::uint64_t> process{0};  ///< a number of its own, 0 = nobody
  std::atomic<std::uint64_t> bytes{0};    ///< promised and not yet touched
};

/// The place where processes of a machine show each other their promises. All of it outlives the
/// PromiseSharing that is made with it.
struct SharedPromises {
  std::span<PromisedWords> words;  ///< one per rank; a process has several if several ranks are it
  int own = 0;
  /// Whether this rank's process still lives: what a dead one had promised it will never take.
  std::function<bool(int rank)> alive;
  /// A byte of a file of which every process has a description of its own: whoever holds its lock
  /// is the only one in make().
  int lock_file = -1, lock_byte = 0;
};

/// While it lives this process shows its promises there. Does nothing in a forked child.
class PromiseSharing {
 public:
  explicit PromiseSharing(SharedPromises where);
  ~PromiseSharing();
  PromiseSharing(const PromiseSharing&) = delete;
  PromiseSharing& operator=(const PromiseSharing&) = delete;

 private:
  const PromisedWords* const own_words_;
};

class MemoryPromise {
 public:
  /// Promises need.touched bytes, or says why they cannot be had beside what all others have
  /// promised. Of those that ask at once and do not all fit, the last are refused; no one is
  /// refused for another that is refused. Errors: kOutOfMemory.
  static Result<MemoryPromise> make(const MemoryNeed& need);

  MemoryPromise() = default;
  MemoryPromise(MemoryPromise&& other) noexcept
      : left_(other.left_.exchange(0, std::memory_order_relaxed)), process_(other.process_) {}
  MemoryPromise& operator=(MemoryPromise&& other) noexcept {
    // Relaxed, here and above: moving is for one thread.
    other.left_.store(
        left_.exchange(other.left_.load(std::memory_order_relaxed), std::memory_order_relaxed),
        std::memory_order_relaxed);
    std::swap(process_, other.process_);
    return *this;
  }
  /// Takes back what was not kept.
  ~MemoryPromise() { keep(SIZE_MAX); }

  /// So many more bytes have been touched: from now on the kernel counts them. For any thread.
  void keep(std::size_t bytes);
  /// Calls touch(offset, size) for one step after the other of `bytes` until one fails, and keeps
  /// the promise step by step: between a step and its word the others see it twice.
  template <class Touch>
  Status keep_in_steps(std::size_t bytes, const Touch& touch) {
    constexpr std::size_t kStep = std::size_t{4} << 20;
    for (std::size_t done = 0; done < bytes; done += kStep) {
      const std::size_t step = std::min(kStep, bytes - done);
      if (Status status = touch(done, step); !status.ok()) return status;
      keep(step);
    }
    return {};
  }
  [[nodiscard]] std::size_t left() const { return left_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::size_t> left_{0};  // promised and not yet touched
  int process_ = 0;                   // that made it
};

}  // namespace tandem::platform
