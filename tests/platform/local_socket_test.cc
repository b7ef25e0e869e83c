// SPDX-License-Identifier: Apache-2.0
//
// Local sockets: a name is reached as long as its owner listens, and a descriptor arrives as the
// same open file.
#include "platform/local_socket.h"

#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/shared_memory.h"

namespace tandem::platform {
namespace {

Deadline in(std::chrono::milliseconds time) { return Deadline::after(time); }

Reach connect(LocalSocket& socket, const SocketName& name) {
  const auto reached = socket.connect(name);
  EXPECT_TRUE(reached.ok()) << reached.status().message();
  return reached.ok() ? *reached : Reach::absent;
}

/// The next connection, for which it waits.
std::optional<LocalSocket> accept(LocalListener& listener) {
  const auto deadline = in(std::chrono::seconds(20));
  for (;;) {
    auto came = listener.accept();
    EXPECT_TRUE(came.ok()) << came.status().message();
    if (!came.ok()) return {};
    if (came->has_value() || deadline.passed()) return std::move(*came);
    std::this_thread::yield();
  }
}

TEST(LocalSocket, NamesDifferAndOnlyAnOwnedOneIsReached) {
  const auto a = random_name(), b = random_name();
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(*a, *b);
  LocalSocket socket;
  EXPECT_EQ(connect(socket, *a), Reach::absent);
  {
    auto listener = LocalListener::create(*a);
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    EXPECT_EQ(connect(socket, *b), Reach::absent);
    EXPECT_EQ(connect(socket, *a), Reach::connected);
  }
  LocalSocket late;
  EXPECT_EQ(connect(late, *a), Reach::absent);  // nothing is left of the name
}

TEST(LocalSocket, AFullQueueIsBusyAndNotAbsent) {
  const auto name = random_name();
  auto listener = LocalListener::create(*name);
  ASSERT_TRUE(listener.ok());
  std::vector<LocalSocket> crowd;
  Reach reached = Reach::connected;
  while (reached == Reach::connected) {
    ASSERT_LT(crowd.size(), 10000u);
    reached = connect(crowd.emplace_back(), *name);
  }
  EXPECT_EQ(reached, Reach::busy);
  while (listener->accept()->has_value()) {
  }
  EXPECT_EQ(connect(crowd.back(), *name), Reach::connected);
}

TEST(LocalSocket, RefusesOtherUsersAndSaysWhoseANameIs) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const auto name = random_name();
  auto listener = LocalListener::create(*name);
  ASSERT_TRUE(listener.ok());
  const pid_t other = fork();
  if (other == 0) {
    LocalSocket socket;
    if (setuid(65534) != 0) _exit(1);
    const auto reached = socket.connect(*name);
    _exit(reached.ok() && *reached == Reach::other_user ? 0 : 2);
  }
  int state = 0;
  ASSERT_EQ(waitpid(other, &state, 0), other);
  EXPECT_EQ(state, 0);
  // Behind it in the queue comes one of this user.
  LocalSocket own;
  ASSERT_EQ(connect(own, *name), Reach::connected);
  auto peer = accept(*listener);
  ASSERT_TRUE(peer);
  const std::byte word[] = {std::byte{1}, std::byte{2}};
  std::byte heard[8] = {};
  EXPECT_FALSE(peer->receive(heard)->has_value());
  ASSERT_TRUE(own.send(word).ok());
  EXPECT_EQ(peer->receive(heard).value(), std::optional<std::size_t>(2));
  EXPECT_EQ(heard[1], std::byte{2});
  own = LocalSocket();
  EXPECT_EQ(peer->receive(heard).status().code(), StatusCode::kIo);
}

TEST(LocalSocket, HandsOverADescriptor) {
  const auto name = random_name();
  auto listener = LocalListener::create(*name);
  ASSERT_TRUE(listener.ok());
  auto file = SharedFile::create();
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->reserve(0, 4096).ok());
  auto mapping = file->map(0, 4096);
  ASSERT_TRUE(mapping.ok());
  std::thread joiner([&] {
    LocalSocket socket;
    ASSERT_EQ(connect(socket, *name), Reach::connected);
    const auto fd = socket.receive_descriptor(in(std::chrono::seconds(20)));
    ASSERT_TRUE(fd.ok()) << fd.status().message();
    auto same = SharedFile::adopt(*fd, 4096);
    ASSERT_TRUE(same.ok());
    auto view = same->map(0, 4096);
    ASSERT_TRUE(view.ok());
    view->data()[4095] = std::byte{42};
    ::close(*fd);
  });
  auto peer = accept(*listener);
  ASSERT_TRUE(peer);
  EXPECT_TRUE(peer->send_descriptor(file->fd()).ok());
  joiner.join();
  EXPECT_EQ(mapping->data()[4095], std::byte{42});
}

TEST(LocalSocket, WaitsHaveADeadline) {
  const auto name = random_name();
  auto listener = LocalListener::create(*name);
  ASSERT_TRUE(listener.ok());
  EXPECT_FALSE(listener->accept()->has_value());
  LocalSocket socket;
  ASSERT_EQ(connect(socket, *name), Reach::connected);
  EXPECT_EQ(socket.receive_descriptor(in(std::chrono::milliseconds(20))).status().code(),
            StatusCode::kTimeout);
  // An owner that ends instead of handing over is no hang.
  EXPECT_TRUE(accept(*listener));
  EXPECT_EQ(socket.receive_descriptor(in(std::chrono::seconds(20))).status().code(),
            StatusCode::kPeerLost);
}

}  // namespace
}  // namespace tandem::platform
