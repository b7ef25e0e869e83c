// SPDX-License-Identifier: Apache-2.0
//
// SharedFile over memfd, fallocate and open-file-description locks.
#include "platform/shared_memory.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/descriptor.h"
#include "platform/memory.h"

namespace tandem::platform {
namespace {

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3; some systems refuse files without it
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

// fallocate() undoes its work when a signal interrupts it: pieces of this size bound what is lost.
constexpr std::size_t kReserveStep = std::size_t{64} << 20;

Status out_of_memory(std::size_t bytes, int error) {
  return {StatusCode::kOutOfMemory,
          fmt::format("cannot reserve {} bytes ({} MiB) of shared memory: {}; use smaller shapes "
                      "or fewer ranks, or free memory",
                      bytes, bytes >> 20, strerrordesc_np(error))};
}

Status refused(std::string what) {
  return {StatusCode::kIo, fmt::format("cannot {}: {}", what, strerrordesc_np(errno))};
}

/// Growing a file past RLIMIT_FSIZE would raise SIGXFSZ; ask first.
bool file_may_grow_to(std::size_t size) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         size <= limit.rlim_cur;
}

struct flock byte_lock(int index, short type) {
  struct flock lock {};  // l_pid must be zero for locks of open file descriptions
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = index;
  lock.l_len = 1;
  return lock;
}

}  // namespace

SharedMapping::~SharedMapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

Status SharedMapping::touch(std::size_t offset, std::size_t bytes) const {
  if (bytes == 0) return {};
  while (madvise(data_ + offset, bytes, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno == ENOMEM) return out_of_memory(bytes, errno);
    // An older kernel: add nothing to a word of each page. Atomic, since peers may be writing.
    for (std::size_t at = offset; at < offset + bytes; at += page_size()) {
      reinterpret_cast<std::atomic<unsigned>*>(data_ + at)->fetch_add(0, std::memory_order_relaxed);
    }
    break;
  }
  return {};
}

Result<SharedFile> SharedFile::create() {
  int fd = above_standard(memfd_create("tandem", MFD_CLOEXEC | MFD_NOEXEC_SEAL));
  if (fd < 0 && errno == EINVAL) fd = above_standard(memfd_create("tandem", MFD_CLOEXEC));
  if (fd < 0) return refused("create an anonymous memory file");
  return SharedFile(fd);
}

Result<SharedFile> SharedFile::adopt(int fd, std::size_t least_bytes) {
  const int own =
      above_standard(open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDWR | O_CLOEXEC));
  if (own < 0) return refused(fmt::format("open the memory file behind descriptor {}", fd));
  SharedFile file(own);
  struct stat info {};
  if (fstat(own, &info) != 0) return refused(fmt::format("examine descriptor {}", fd));
  if (!S_ISREG(info.st_mode) || static_cast<std::size_t>(info.st_size) < least_bytes) {
    return Status(StatusCode::kMismatch,
                  fmt::format("descriptor {} is not the memory file of a world: it holds {} bytes, "
                              "at least {} are expected",
                              fd, info.st_size, least_bytes));
  }
  return file;
}

SharedFile::~SharedFile() {
  if (fd_ >= 0) close(fd_);
}

Status SharedFile::reserve(std::size_t offset, std::size_t bytes) {
  if (!file_may_grow_to(offset + bytes)) {
    return {StatusCode::kOutOfMemory,
            fmt::format("cannot grow the shared memory to {} bytes: the limit RLIMIT_FSIZE is "
                        "lower; raise it with `ulimit -f`",
                        offset + bytes)};
  }
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t step = std::min(kReserveStep, bytes - done);
    if (fallocate(fd_, 0, static_cast<off_t>(offset + done), static_cast<off_t>(step)) == 0) {
      done += step;
    } else if (errno != EINTR) {
      const int error = errno;
      release(offset, done);
      return out_of_memory(bytes, error);
    }
  }
  return {};
}

void SharedFile::release(std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  while (fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                   static_cast<off_t>(bytes)) != 0 &&
         errno == EINTR) {
  }
}

Result<SharedMapping> SharedFile::map(std::size_t offset, std::size_t bytes) const {
  void* data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, static_cast<off_t>(offset));
  if (data == MAP_FAILED) {
    return Status(StatusCode::kOutOfMemory,
                  fmt::format("cannot map {} bytes of shared memory: {}; raise the limit that "
                              "`ulimit -v` shows",
                              bytes, strerrordesc_np(errno)));
  }
  SharedMapping mapping;
  mapping.data_ = static_cast<std::byte*>(data);
  mapping.size_ = bytes;
  return mapping;
}

std::size_t SharedFile::reserved_bytes() const {
  struct stat info {};
  constexpr std::size_t kBlock = 512;  // the unit of st_blocks, whatever the file system
  return fstat(fd_, &info) == 0 ? static_cast<std::size_t>(info.st_blocks) * kBlock : 0;
}

Result<bool> SharedFile::lock_byte(int index) {
  struct flock lock = byte_lock(index, F_WRLCK);
  if (fcntl(fd_, F_OFD_SETLK, &lock) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  return refused(fmt::format("lock byte {} of the memory file", index));
}

bool SharedFile::locked_by_other(int index) const {
  struct flock lock = byte_lock(index, F_WRLCK);
  // When the kernel cannot say, the owner counts as alive: deadlines still hold.
  return fcntl(fd_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

void stop_inheriting(int fd) { fcntl(fd, F_SETFD, FD_CLOEXEC); }

void close_descriptor(int fd) { close(fd); }

}  // namespace tandem::platform
