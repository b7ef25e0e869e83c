// SPDX-License-Identifier: Apache-2.0
//
// SharedFile and SharedMapping: memory that ranks share. The file is anonymous (memfd): it lives
// as long as a descriptor or a mapping, so that nothing remains whoever is killed and when, and
// its size does not depend on /dev/shm. symm/ keeps a world's control block and windows in one.
//
// Its byte locks tell who is alive: a rank locks the byte of its number through a file
// description of its own, and the kernel drops the lock when the process ends, however it ends.
#pragma once

#include <cstddef>
#include <utility>

#include "tandem/status.h"

namespace tandem::platform {

/// A mapped range of a SharedFile, unmapped by the destructor.
class SharedMapping {
 public:
  SharedMapping() = default;
  SharedMapping(SharedMapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  SharedMapping& operator=(SharedMapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~SharedMapping();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

  /// Makes this process's page tables point at a reserved range, from the calling thread (and
  /// thereby on its NUMA node). Contents stay. Errors: kOutOfMemory.
  Status touch(std::size_t offset, std::size_t bytes) const;

 private:
  friend class SharedFile;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// All offsets and sizes are multiples of page_size(), those of adopt()'s check apart.
class SharedFile {
 public:
  /// Errors: kIo, kOutOfMemory.
  static Result<SharedFile> create();
  /// Opens a file that another process created, given a descriptor of it, with a description (and
  /// therefore locks) of its own; `fd` stays with the caller. Errors: kIo (no such descriptor),
  /// kMismatch (it holds fewer than `least_bytes`).
  static Result<SharedFile> adopt(int fd, std::size_t least_bytes);

  SharedFile() = default;
  SharedFile(SharedFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  SharedFile& operator=(SharedFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~SharedFile();

  [[nodiscard]] int fd() const { return fd_; }
  /// Gives up the descriptor without closing it.
  [[nodiscard]] int detach() { return std::exchange(fd_, -1); }

  /// Takes memory for a range, zeroed, growing the file as needed. After this no access to the
  /// range can fail. Errors: kOutOfMemory.
  Status reserve(std::size_t offset, std::size_t bytes);
  /// Gives the memory of a range back; it reads as zeros until reserved again.
  void release(std::size_t offset, std::size_t bytes);
  [[nodiscard]] Result<SharedMapping> map(std::size_t offset, std::size_t bytes) const;
  /// Memory that the file holds now.
  [[nodiscard]] std::size_t reserved_bytes() const;

  /// Locks byte `index` for this description. False when another one holds it.
  [[nodiscard]] Result<bool> lock_byte(int index);
  /// Whether another description, of any process, holds the lock of byte `index`.
  [[nodiscard]] bool locked_by_other(int index) const;

 private:
  explicit SharedFile(int fd) : fd_(fd) {}
  int fd_ = -1;
};

/// Keeps an inherited descriptor from being inherited further.
void stop_inheriting(int fd);
void close_descriptor(int fd);

}  // namespace tandem::platform
