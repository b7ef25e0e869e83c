// SPDX-License-Identifier: Apache-2.0
//
// LocalListener: how processes of one machine find out that they are, and hand over a descriptor.
// The sockets are abstract: their names live in the network namespace and in no file system, and
// vanish with the process. Whoever reaches a name shares a kernel and a network namespace with its
// owner; src/mpi/machines.cc builds on that, never on host names.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "platform/deadline.h"
#include "tandem/status.h"

namespace tandem::platform {

/// Random, so that nobody else has it.
using SocketName = std::array<std::uint64_t, 2>;

/// Errors: kIo.
[[nodiscard]] Result<SocketName> random_name();

/// A connection to another process of the same user.
class LocalSocket {
 public:
  LocalSocket() = default;
  explicit LocalSocket(int fd) : fd_(fd) {}
  LocalSocket(LocalSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  LocalSocket& operator=(LocalSocket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~LocalSocket();

  [[nodiscard]] int fd() const { return fd_; }
  /// Connects if the name is known on this machine; never waits. False when it is not, or belongs
  /// to another user.
  [[nodiscard]] bool connect(const SocketName& name);

  /// Hands a descriptor over. Errors: kIo.
  Status send_descriptor(int fd);
  /// Waits for one; it is the caller's to close, and not inherited. Errors: kTimeout, kIo.
  [[nodiscard]] Result<int> receive_descriptor(Deadline deadline);

 private:
  int fd_ = -1;
};

class LocalListener {
 public:
  /// Errors: kIo.
  static Result<LocalListener> create(const SocketName& name);
  LocalListener(LocalListener&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  LocalListener& operator=(LocalListener&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~LocalListener();

  /// The next connection by a process of the same user. Errors: kTimeout, kIo.
  [[nodiscard]] Result<LocalSocket> accept(Deadline deadline);

 private:
  explicit LocalListener(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace tandem::platform
