// SPDX-License-Identifier: Apache-2.0
//
// Local sockets: a name is reached as long as its owner listens, and a descriptor arrives as the
// same open file.
#include "platform/local_socket.h"

#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "platform/shared_memory.h"

namespace tandem::platform {
namespace {

Deadline in(std::chrono::milliseconds time) { return Deadline::after(time); }

TEST(LocalSocket, NamesDifferAndOnlyAnOwnedOneIsReached) {
  const auto a = random_name(), b = random_name();
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(*a, *b);
  LocalSocket socket;
  EXPECT_FALSE(socket.connect(*a));
  {
    auto listener = LocalListener::create(*a);
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    EXPECT_FALSE(socket.connect(*b));
    EXPECT_TRUE(socket.connect(*a));
  }
  LocalSocket late;
  EXPECT_FALSE(late.connect(*a));  // nothing is left of the name
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
    ASSERT_TRUE(socket.connect(*name));
    const auto fd = socket.receive_descriptor(in(std::chrono::seconds(20)));
    ASSERT_TRUE(fd.ok()) << fd.status().message();
    auto same = SharedFile::adopt(*fd, 4096);
    ASSERT_TRUE(same.ok());
    auto view = same->map(0, 4096);
    ASSERT_TRUE(view.ok());
    view->data()[4095] = std::byte{42};
    ::close(*fd);
  });
  auto peer = listener->accept(in(std::chrono::seconds(20)));
  ASSERT_TRUE(peer.ok()) << peer.status().message();
  EXPECT_TRUE(peer->send_descriptor(file->fd()).ok());
  joiner.join();
  EXPECT_EQ(mapping->data()[4095], std::byte{42});
}

TEST(LocalSocket, WaitsHaveADeadline) {
  const auto name = random_name();
  auto listener = LocalListener::create(*name);
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(listener->accept(in(std::chrono::milliseconds(20))).status().code(),
            StatusCode::kTimeout);
  LocalSocket socket;
  ASSERT_TRUE(socket.connect(*name));
  EXPECT_EQ(socket.receive_descriptor(in(std::chrono::milliseconds(20))).status().code(),
            StatusCode::kTimeout);
  // An owner that ends instead of handing over is no hang.
  {
    auto peer = listener->accept(in(std::chrono::seconds(20)));
    ASSERT_TRUE(peer.ok());
  }
  EXPECT_EQ(socket.receive_descriptor(in(std::chrono::seconds(20))).status().code(),
            StatusCode::kIo);
}

}  // namespace
}  // namespace tandem::platform
