// SPDX-License-Identifier: Apache-2.0
//
// LocalListener: how processes of one machine find out that they are, and hand over a descriptor.
// The sockets are abstract: their names live in the network namespace and in no file system, and
// vanish with the process. Whoever reaches a name shares a kernel and a network namespace with its
// owner; src/mpi/meeting.cc builds on that, never on host names. Every user of the machine can read
// the names and knock (/proc/net/unix): whoever listens must accept() often, so that strangers do
// not fill the queue, and must ask who came for a word that only its peers know.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/internal_api.h"
#include "platform/deadline.h"
#include "tandem/status.h"

namespace tandem::platform {

/// Random, so that nobody else has it.
using SocketName = std::array<std::uint64_t, 2>;

/// Errors: kIo.
[[nodiscard]] TANDEM_INTERNAL_API Result<SocketName> random_name();

/// What became of a connect().
enum class Reach : std::uint8_t {
  connected,
  absent,      ///< nobody on this machine has that name
  busy,        ///< somebody has, and so many are waiting there that one has to try again
  other_user,  ///< somebody of another user has
};

/// A connection to another process of the same user.
class TANDEM_INTERNAL_API LocalSocket {
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
  /// Connects if the name is known on this machine; never waits. Errors: kIo.
  [[nodiscard]] Result<Reach> connect(const SocketName& name);

  /// Sends a few bytes; never waits. Errors: kIo.
  Status send(std::span<const std::byte> bytes);
  /// The bytes of one send(), as far as they fit, and how many there were; empty when none has
  /// come. Never waits. Errors: kIo, also when the other side has closed.
  [[nodiscard]] Result<std::optional<std::size_t>> receive(std::span<std::byte> bytes);

  /// Hands a descriptor over. Errors: kIo.
  Status send_descriptor(int fd);
  /// Waits for one; it is the caller's to close, and not inherited. Errors: kTimeout, kIo.
  [[nodiscard]] Result<int> receive_descriptor(Deadline deadline);

 private:
  int fd_ = -1;
};

class TANDEM_INTERNAL_API LocalListener {
 public:
  /// Errors: kIo.
  static Result<LocalListener> create(const SocketName& name);
  LocalListener(LocalListener&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  LocalListener& operator=(LocalListener&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~LocalListener();

  /// The next connection that waits, of a process of the same user, or empty; never waits. Refuses
  /// those of other users. Errors: kIo.
  [[nodiscard]] Result<std::optional<LocalSocket>> accept();

 private:
  explicit LocalListener(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace tandem::platform
