// SPDX-License-Identifier: Apache-2.0
//
// PageBuffer: zeroed private memory of this process, page-aligned, given back by the destructor.
// Packed weights and scratch live in one. Before anything is mapped the memory is promised
// (memory_promise.h) within the limits of the machine, the container and the process, so that a
// request that cannot be met is an error and not a kill later; touch() then takes it.
#pragma once

#include <cstddef>
#include <utility>

#include "platform/memory_promise.h"
#include "tandem/status.h"

namespace tandem::platform {

class PageBuffer {
 public:
  /// `huge` asks for huge pages where the system offers them; without them it changes nothing.
  /// `what` completes "needed for …". 0 bytes give an empty buffer. Errors: kOutOfMemory.
  static Result<PageBuffer> create(std::size_t bytes, bool huge, std::string_view what);

  PageBuffer() = default;
  PageBuffer(PageBuffer&& other) noexcept
      : promise_(std::move(other.promise_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        mapped_(std::exchange(other.mapped_, 0)) {}
  PageBuffer& operator=(PageBuffer&& other) noexcept {
    std::swap(promise_, other.promise_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }
  ~PageBuffer();

  /// Takes the memory of a range, from the calling thread and thereby on its NUMA node; contents
  /// stay. Whoever uses the buffer does this first for all of it: others see what is promised as
  /// taken, and would see what was touched without a word as taken twice. Different ranges may be
  /// touched from different threads. Errors: kOutOfMemory.
  Status touch(std::size_t offset, std::size_t bytes);
  Status touch() { return touch(0, size_); }

  [[nodiscard]] std::byte* data() { return data_; }
  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  MemoryPromise promise_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;    // as asked for
  std::size_t mapped_ = 0;  // size_ rounded up to whole (huge) pages
};

}  // namespace tandem::platform
