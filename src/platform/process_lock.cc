// SPDX-License-Identifier: Apache-2.0
//
// Locks of open file descriptions (F_OFD_SETLK), and the register of their descriptors that a
// pthread_atfork() handler empties in every child. A child made by a bare clone() or _Fork() runs
// no handler and keeps its parent's locks for as long as it lives, or until it calls exec.
#include "platform/process_lock.h"

#include <array>
#include <cerrno>
#include <mutex>

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "platform/descriptor.h"
#include "platform/process.h"

namespace tandem::platform {
namespace {

// Held over every fork: no child begins between the opening of a descriptor and its registration.
// The handlers may only do what is async-signal-safe: a fixed array, and close().
std::mutex register_mutex;
std::array<int, 4096> descriptors{};  // + 1; 0 is a free place

void before_fork() { register_mutex.lock(); }

void after_fork_in_parent() { register_mutex.unlock(); }

void after_fork_in_child() {
  for (int& place : descriptors) {
    if (place != 0) close(place - 1);
    place = 0;
  }
  register_mutex.unlock();
}

Status watch_forks() {
  static const int error = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  if (error == 0) return {};
  return {StatusCode::kOutOfMemory,
          fmt::format("cannot register what forked children must close: {}; free memory",
                      strerrordesc_np(error))};
}

/// Opens the file behind `fd` anew; its place in the register.
Result<int> open_registered(int fd) {
  if (Status s = watch_forks(); !s.ok()) return s;
  const std::lock_guard lock(register_mutex);
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    if (descriptors[i] != 0) continue;
    auto own = reopen(fd);
    if (!own.ok()) return own.status();
    descriptors[i] = *own + 1;
    return static_cast<int>(i);
  }
  return Status(
      StatusCode::kOutOfMemory,
      fmt::format("this process is in {} worlds already; destroy some", descriptors.size()));
}

int& registered(int place) { return descriptors[static_cast<std::size_t>(place)]; }

}  // namespace

Result<ProcessLock> ProcessLock::take(int fd, int index) {
  auto place = open_registered(fd);
  if (!place.ok()) return place.status();
  ProcessLock lock;
  lock.place_ = *place;
  lock.process_ = process_id();
  struct flock byte {};  // l_pid must be zero for locks of open file descriptions
  byte.l_type = F_WRLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = index;
  byte.l_len = 1;
  if (fcntl(registered(*place) - 1, F_OFD_SETLK, &byte) == 0) return lock;
  if (errno == EAGAIN || errno == EACCES) return ProcessLock();
  return Status(StatusCode::kIo, fmt::format("cannot lock byte {} of the memory file: {}", index,
                                             strerrordesc_np(errno)));
}

ProcessLock::~ProcessLock() {
  if (place_ < 0 || process_ != process_id()) return;
  const std::lock_guard lock(register_mutex);
  close(registered(place_) - 1);
  registered(place_) = 0;
}

}  // namespace tandem::platform
