// SPDX-License-Identifier: Apache-2.0
//
// PageBuffer: zeroed private memory of this process, page-aligned, given back by the destructor.
// Packed weights and scratch live in one. The size is checked against the limits of the machine,
// the container and the process before anything is mapped (memory.h), so that a request that
// cannot be met is an error and not a kill later.
#pragma once

#include <cstddef>
#include <utility>

#include "tandem/status.h"

namespace tandem::platform {

class PageBuffer {
 public:
  /// `huge` asks for huge pages where the system offers them; without them it changes nothing.
  /// 0 bytes give an empty buffer. Errors: kOutOfMemory.
  static Result<PageBuffer> create(std::size_t bytes, bool huge);

  PageBuffer() = default;
  PageBuffer(PageBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        mapped_(std::exchange(other.mapped_, 0)) {}
  PageBuffer& operator=(PageBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }
  ~PageBuffer();

  [[nodiscard]] std::byte* data() { return data_; }
  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;    // as asked for
  std::size_t mapped_ = 0;  // size_ rounded up to whole (huge) pages
};

}  // namespace tandem::platform
