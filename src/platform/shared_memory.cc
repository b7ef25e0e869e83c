// SPDX-License-Identifier: Apache-2.0
//
// SharedFile over memfd, its seals, and fallocate.
#include "platform/shared_memory.h"

#include <algorithm>
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

// fallocate() undoes its work when a signal interrupts it. Pieces bound what is lost; they become
// smaller as long as signals interrupt them, so that a profiler's timer cannot hold this up.
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

/// What memfd_create() says where something forbids it. No other way to share memory leaves nothing
/// behind when its users are killed, so there is none to fall back on.
Status no_memory_file() {
  const int error = errno;
  const char* remedy = "look at what limits this process";
  if (error == EPERM || error == ENOSYS || error == EACCES) {
    remedy =
        "a seccomp filter, a container profile or a kernel before 3.17 forbids this call: allow "
        "memfd_create there";
  } else if (error == EMFILE || error == ENFILE) {
    remedy = "raise `ulimit -n`, or close files";
  }
  return {error == ENOMEM ? StatusCode::kOutOfMemory : StatusCode::kIo,
          fmt::format("cannot create an anonymous memory file: memfd_create: {}; {}",
                      strerrordesc_np(error), remedy)};
}

/// A file longer than RLIMIT_FSIZE would raise SIGXFSZ.
std::size_t possible_bytes() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return SharedFile::kBytes;
  }
  return std::min<std::size_t>(SharedFile::kBytes, limit.rlim_cur / page_size() * page_size());
}

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

SharedMapping::~SharedMapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

Status SharedMapping::touch(std::size_t offset, std::size_t bytes) const {
  return populate(data_ + offset, bytes);
}

Result<SharedFile> SharedFile::create() {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int fd = above_standard(memfd_create("tandem", kFlags | MFD_NOEXEC_SEAL));
  if (fd < 0 && errno == EINVAL) fd = above_standard(memfd_create("tandem", kFlags));
  if (fd < 0) return no_memory_file();
  SharedFile file(fd);
  file.bytes_ = possible_bytes();
  if (ftruncate(fd, static_cast<off_t>(file.bytes_)) != 0) {
    return refused(fmt::format("make a memory file of {} bytes", file.bytes_));
  }
  if (fcntl(fd, F_ADD_SEALS, kSeals) != 0) return refused("seal the memory file");
  return file;
}

Result<SharedFile> SharedFile::adopt(int fd, std::size_t least_bytes) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 && errno != EBADF) {
    return Status(StatusCode::kMismatch,
                  fmt::format("descriptor {} is not the memory file of a world; start the ranks "
                              "with `tandem launch`",
                              fd));
  }
  auto own = reopen(fd);
  if (!own.ok()) return own.status();
  SharedFile file(*own);
  struct stat info {};
  if (fstat(*own, &info) != 0) return refused(fmt::format("examine descriptor {}", fd));
  file.bytes_ = static_cast<std::size_t>(info.st_size);
  if ((seals & kSeals) != kSeals || file.bytes_ < least_bytes) {
    return Status(StatusCode::kMismatch,
                  fmt::format("descriptor {} is not the memory file of a world: it has {} bytes, "
                              "and at least {} whose number is sealed are expected; start the "
                              "ranks with `tandem launch`",
                              fd, file.bytes_, least_bytes));
  }
  return file;
}

SharedFile::~SharedFile() {
  if (fd_ >= 0) close(fd_);
}

Status SharedFile::check_range(std::size_t offset, std::size_t bytes) const {
  if (offset <= bytes_ && bytes <= bytes_ - offset) return {};
  return {StatusCode::kOutOfMemory,
          fmt::format("the shared memory of this world ends at {} bytes, and {} at {} are needed: "
                      "the limit RLIMIT_FSIZE was lower when the world was made; raise it with "
                      "`ulimit -f`",
                      bytes_, bytes, offset)};
}

Status SharedFile::reserve(std::size_t offset, std::size_t bytes) {
  if (Status s = check_range(offset, bytes); !s.ok()) return s;
  std::size_t step = kReserveStep;
  for (std::size_t done = 0; done < bytes;) {
    step = std::min(step, bytes - done);
    if (fallocate(fd_, 0, static_cast<off_t>(offset + done), static_cast<off_t>(step)) == 0) {
      done += step;
      step = std::min(kReserveStep, 2 * step);
    } else if (errno == EINTR) {
      step = std::max(page_size(), step / 2 / page_size() * page_size());
    } else {
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
  if (Status s = check_range(offset, bytes); !s.ok()) return s;
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

bool SharedFile::locked(int index) const {
  struct flock byte {};  // l_pid must be zero for locks of open file descriptions
  byte.l_type = F_WRLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = index;
  byte.l_len = 1;
  // Asked of a description that holds no lock. When the kernel cannot say, the owner counts as
  // alive: deadlines still hold.
  return fcntl(fd_, F_OFD_GETLK, &byte) != 0 || byte.l_type != F_UNLCK;
}

void stop_inheriting(int fd) { fcntl(fd, F_SETFD, FD_CLOEXEC); }

void close_descriptor(int fd) { close(fd); }

}  // namespace tandem::platform
