// SPDX-License-Identifier: Apache-2.0
//
// Abstract AF_UNIX sockets of sequenced packets, and SCM_RIGHTS.
#include "platform/local_socket.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "platform/descriptor.h"

namespace tandem::platform {
namespace {

Status refused(std::string_view what) {
  return {StatusCode::kIo, fmt::format("cannot {}: {}", what, strerrordesc_np(errno))};
}

struct Address {
  sockaddr_un socket{};
  socklen_t length = 0;
};

Address address_of(const SocketName& name) {
  Address address;
  address.socket.sun_family = AF_UNIX;
  // A leading zero byte makes the name abstract.
  const std::string text = fmt::format("tandem-{:016x}{:016x}", name[0], name[1]);
  std::memcpy(address.socket.sun_path + 1, text.data(), text.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return address;
}

int new_socket() {
  return above_standard(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// The names of abstract sockets can be listed by every user of the machine.
bool same_user(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

/// A packet of one byte with room for one descriptor.
struct DescriptorPacket {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};

  DescriptorPacket() {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  DescriptorPacket(const DescriptorPacket&) = delete;
  DescriptorPacket& operator=(const DescriptorPacket&) = delete;
};

/// Waits until the descriptor can be read.
Status wait_readable(int fd, Deadline deadline, std::string_view what) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return refused(what);
    if (ready == 0 && left <= 0) {
      return {StatusCode::kTimeout,
              fmt::format("{} took too long: another process of this machine did not follow; find "
                          "out what it is doing, or allow more time",
                          what)};
    }
  }
}

}  // namespace

Result<SocketName> random_name() {
  SocketName name{};
  if (getrandom(name.data(), sizeof name, 0) != static_cast<ssize_t>(sizeof name)) {
    return refused("draw a random name");
  }
  return name;
}

LocalSocket::~LocalSocket() {
  if (fd_ >= 0) close(fd_);
}

Result<Reach> LocalSocket::connect(const SocketName& name) {
  LocalSocket made(new_socket());
  if (made.fd_ < 0) return refused("make a local socket");
  const Address address = address_of(name);
  const auto* plain = reinterpret_cast<const sockaddr*>(&address.socket);
  if (::connect(made.fd_, plain, address.length) != 0) {
    if (errno == ECONNREFUSED || errno == ENOENT) return Reach::absent;
    if (errno == EAGAIN || errno == EINTR) return Reach::busy;
    return refused("connect to a local socket");
  }
  if (!same_user(made.fd_)) return Reach::other_user;
  std::swap(fd_, made.fd_);
  return Reach::connected;
}

Status LocalSocket::send(std::span<const std::byte> bytes) {
  const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(bytes.size())) return refused("write to a local socket");
  return {};
}

Result<std::optional<std::size_t>> LocalSocket::receive(std::span<std::byte> bytes) {
  const ssize_t got = recv(fd_, bytes.data(), bytes.size(), MSG_TRUNC);
  if (got > 0) return std::optional(static_cast<std::size_t>(got));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::optional<std::size_t>();
  if (got == 0) errno = ECONNRESET;
  return refused("read from a local socket");
}

Status LocalSocket::send_descriptor(int fd) {
  DescriptorPacket packet;
  cmsghdr* header = CMSG_FIRSTHDR(&packet.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  if (sendmsg(fd_, &packet.message, MSG_NOSIGNAL) != 1) return refused("hand a descriptor over");
  return {};
}

Result<int> LocalSocket::receive_descriptor(Deadline deadline) {
  if (Status s = wait_readable(fd_, deadline, "receive the memory of this machine"); !s.ok()) {
    return s;
  }
  DescriptorPacket packet;
  if (recvmsg(fd_, &packet.message, MSG_CMSG_CLOEXEC) < 0) {
    return refused("receive the memory of this machine");
  }
  int fd = -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&packet.message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof fd)) {
    return Status(StatusCode::kPeerLost,
                  "another process of this machine ended before it handed over the memory; look at "
                  "how it ended");
  }
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  fd = above_standard(fd);
  if (fd < 0) return refused("keep the memory of this machine");
  return fd;
}

Result<LocalListener> LocalListener::create(const SocketName& name) {
  LocalListener made(new_socket());
  const Address address = address_of(name);
  // Everybody may knock before the first is let in.
  constexpr int kBacklog = 128;
  if (made.fd_ < 0 ||
      bind(made.fd_, reinterpret_cast<const sockaddr*>(&address.socket), address.length) != 0 ||
      listen(made.fd_, kBacklog) != 0) {
    return refused("open a local socket");
  }
  return made;
}

LocalListener::~LocalListener() {
  if (fd_ >= 0) close(fd_);
}

Result<std::optional<LocalSocket>> LocalListener::accept() {
  for (;;) {
    LocalSocket made(above_standard(accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
    if (made.fd() >= 0 && same_user(made.fd())) return std::optional(std::move(made));
    if (made.fd() >= 0 || errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return std::optional<LocalSocket>();
    return refused("meet the ranks of this machine");
  }
}

}  // namespace tandem::platform
