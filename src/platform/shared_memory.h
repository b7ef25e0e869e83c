// SPDX-License-Identifier: Apache-2.0
//
// SharedFile and SharedMapping: memory that ranks share. The file is anonymous (memfd): it lives
// as long as a descriptor or a mapping, so that nothing remains whoever is killed and when, and
// its size does not depend on /dev/shm. symm/ keeps a world's control block and windows in one.
//
// The file is made as long as it will ever be, and sealed so that no process can change that:
// whoever cut it short would kill the others by SIGBUS. Its length costs nothing; ranges of it take
// memory when they are reserved. Its byte locks (process_lock.h) tell who is alive.
#pragma once

#include <cstddef>
#include <utility>

#include "base/internal_api.h"
#include "platform/process_lock.h"
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
  /// Length of a file: 4 EiB, enough for 2^26 windows of 64 GiB one behind the other.
  static constexpr std::size_t kBytes = std::size_t{1} << 62;

  /// A file of kBytes, or of as much as RLIMIT_FSIZE allows. Errors: kIo, kOutOfMemory.
  static Result<SharedFile> create();
  /// Opens a file that another process created, given a descriptor of it, with a description of
  /// its own; `fd` stays with the caller. Errors: kIo (no such descriptor, no /proc), kMismatch
  /// (not made by create(), or shorter than `least_bytes`).
  static Result<SharedFile> adopt(int fd, std::size_t least_bytes);

  SharedFile() = default;
  SharedFile(SharedFile&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), bytes_(std::exchange(other.bytes_, 0)) {}
  SharedFile& operator=(SharedFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SharedFile();

  [[nodiscard]] int fd() const { return fd_; }
  /// Gives up the descriptor without closing it.
  [[nodiscard]] int detach() { return std::exchange(fd_, -1); }

  /// Takes memory for a range, zeroed. After this no access to the range can fail. Errors:
  /// kOutOfMemory, also for a range beyond the end of the file.
  Status reserve(std::size_t offset, std::size_t bytes);
  /// Gives the memory of a range back; it reads as zeros until reserved again.
  void release(std::size_t offset, std::size_t bytes);
  /// Errors: as reserve().
  [[nodiscard]] Result<SharedMapping> map(std::size_t offset, std::size_t bytes) const;
  /// Memory that the file holds now.
  [[nodiscard]] std::size_t reserved_bytes() const;

  /// Whether a ProcessLock on byte `index` is held, by whatever process.
  [[nodiscard]] bool locked(int index) const;

 private:
  explicit SharedFile(int fd) : fd_(fd) {}
  /// Ok when the range lies within the file.
  [[nodiscard]] Status check_range(std::size_t offset, std::size_t bytes) const;

  int fd_ = -1;
  std::size_t bytes_ = 0;  // of the file, for ever
};

/// Keeps an inherited descriptor from being inherited further.
void stop_inheriting(int fd);
TANDEM_INTERNAL_API void close_descriptor(int fd);

}  // namespace tandem::platform
