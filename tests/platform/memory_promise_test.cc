// SPDX-License-Identifier: Apache-2.0
//
// Promises of memory: of those that ask at once and do not all fit, the last are refused, among
// threads and among processes. What is available is pretended, so that nothing depends on the
// machine.
#include "platform/memory_promise.h"

#include <array>
#include <barrier>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/deadline.h"
#include "platform/delay.h"
#include "platform/page_buffer.h"
#include "platform/park.h"
#include "platform/shared_memory.h"

namespace tandem::platform {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kMiB = std::size_t{1} << 20;

class Pretend {
 public:
  explicit Pretend(std::function<std::int64_t()> touchable) {
    pretend_touchable(std::move(touchable));
  }
  explicit Pretend(std::size_t bytes)
      : Pretend([bytes] { return static_cast<std::int64_t>(bytes); }) {}
  ~Pretend() { pretend_touchable({}); }
};

Result<MemoryPromise> promise(std::size_t bytes) {
  return MemoryPromise::make({.touched = bytes, .what = "a test"});
}

TEST(MemoryPromise, CountsUntilItIsKeptOrTakenBack) {
  const Pretend pretend(100 * kMiB);
  auto first = promise(60 * kMiB);
  ASSERT_TRUE(first.ok());
  const Status refused = promise(60 * kMiB).status();
  EXPECT_EQ(refused.code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(refused.message(), HasSubstr("62914560 bytes (60 MiB)"));
  EXPECT_THAT(refused.message(), HasSubstr("leaves 100 MiB, of which 60 MiB are promised"));
  EXPECT_TRUE(promise(40 * kMiB).ok()) << "a refusal leaves nothing behind";
  EXPECT_TRUE(promise(40 * kMiB).ok()) << "nor does a promise that is gone";

  first->keep(30 * kMiB);
  EXPECT_EQ(first->left(), 30 * kMiB);
  EXPECT_TRUE(promise(70 * kMiB).ok());
  EXPECT_FALSE(promise(71 * kMiB).ok());
  MemoryPromise moved = std::move(first).value();
  EXPECT_FALSE(promise(71 * kMiB).ok());
  moved = MemoryPromise();
  EXPECT_TRUE(promise(100 * kMiB).ok());
}

TEST(MemoryPromise, KeepingMoreThanWasPromisedIsKeepingIt) {
  const Pretend pretend(100 * kMiB);
  auto first = promise(60 * kMiB);
  auto second = promise(40 * kMiB);
  ASSERT_TRUE(first.ok() && second.ok());
  first->keep(80 * kMiB);
  EXPECT_FALSE(promise(61 * kMiB).ok());
  EXPECT_TRUE(promise(60 * kMiB).ok());
}

TEST(MemoryPromise, OfThreadsThatAskAtOnceAsManyAsFitAreGranted) {
  const Pretend pretend(100 * kMiB);
  for (int round = 0; round < 50; ++round) {
    constexpr int kThreads = 5;
    std::atomic<int> granted{0};
    std::barrier together(kThreads);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        together.arrive_and_wait();
        const auto mine = promise(30 * kMiB);
        if (mine.ok()) granted.fetch_add(1);
        together.arrive_and_wait();
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(granted.load(), 3);
  }
}

TEST(MemoryPromise, BuffersKeepTheirsByTouching) {
  const Pretend pretend(100 * kMiB);
  auto buffer = PageBuffer::create(60 * kMiB, /*huge=*/true, "a test");
  ASSERT_TRUE(buffer.ok());
  EXPECT_FALSE(promise(60 * kMiB).ok());
  ASSERT_TRUE(buffer->touch(0, 20 * kMiB).ok());
  EXPECT_FALSE(promise(61 * kMiB).ok());
  EXPECT_TRUE(promise(60 * kMiB).ok());
  buffer = PageBuffer();
  EXPECT_TRUE(promise(100 * kMiB).ok());
}

// Several processes, which meet in shared memory as those of a world do.

constexpr int kProcesses = 5;

struct Shared {
  std::array<PromisedWords, kProcesses> words;
  std::array<std::atomic<bool>, kProcesses> dead;
  std::atomic<int> arrived{0}, granted{0};
};

class MemoryPromiseOfProcesses : public ::testing::Test {
 protected:
  MemoryPromiseOfProcesses() {
    void* memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = new (memory) Shared;
  }
  ~MemoryPromiseOfProcesses() override { munmap(shared_, sizeof(Shared)); }

  /// Waits until so many processes have come here or to an earlier call.
  void meet(int count) {
    shared_->arrived.fetch_add(1);
    const Deadline deadline = Deadline::after(std::chrono::seconds(60));
    while (shared_->arrived.load() < count && !deadline.passed()) {
      sleep_until(Clock::now() + std::chrono::microseconds(200));
    }
    EXPECT_GE(shared_->arrived.load(), count) << "the others did not come";
  }

  void fork_all(const std::function<void(int)>& body) {
    auto file = SharedFile::create();
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->reserve(0, page_size()).ok());
    std::vector<pid_t> children;
    for (int i = 0; i < kProcesses; ++i) {
      const pid_t child = fork();
      if (child != 0) {
        children.push_back(child);
        continue;
      }
      auto own = SharedFile::adopt(file->fd(), page_size());
      EXPECT_TRUE(own.ok());
      if (own.ok()) {
        const PromiseSharing sharing(
            {.words = shared_->words,
             .own = i,
             .alive = [&](int r) { return !shared_->dead[static_cast<std::size_t>(r)].load(); },
             .lock_file = own->fd(),
             .lock_byte = 7});
        body(i);
      }
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    for (pid_t child : children) {
      int state = 0;
      ASSERT_EQ(waitpid(child, &state, 0), child);
      EXPECT_EQ(state, 0);
    }
  }

  Shared* shared_ = nullptr;
};

TEST_F(MemoryPromiseOfProcesses, AsManyAsFitAreGranted) {
  const Pretend pretend(100 * kMiB);
  fork_all([&](int i) {
    // Between showing one's own promise and looking at the others'.
    set_delays(static_cast<std::uint64_t>(i), 500);
    for (int round = 1; round <= 20; ++round) {
      const int before = 3 * (round - 1) * kProcesses;
      meet(before + kProcesses);
      {
        const auto mine = promise(30 * kMiB);
        if (mine.ok()) shared_->granted.fetch_add(1);
        if (!mine.ok()) {
          EXPECT_THAT(mine.status().message(), HasSubstr("90 MiB are promised"));
        }
        meet(before + 2 * kProcesses);
        EXPECT_EQ(shared_->granted.load(), 3 * round);
      }
      meet(before + 3 * kProcesses);
    }
  });
}

TEST_F(MemoryPromiseOfProcesses, TheDeadTakeNothing) {
  const Pretend pretend(100 * kMiB);
  fork_all([&](int i) {
    if (i == 0) {
      auto mine = promise(90 * kMiB);
      EXPECT_TRUE(mine.ok());
      meet(kProcesses);
      meet(2 * kProcesses);
      _exit(0);  // without a word
    }
    meet(kProcesses);
    EXPECT_FALSE(promise(20 * kMiB).ok());
    meet(2 * kProcesses);
    shared_->dead[0].store(true);
    EXPECT_TRUE(promise(20 * kMiB).ok());
  });
}

TEST_F(MemoryPromiseOfProcesses, WhatWasPromisedBeforeIsShown) {
  const Pretend pretend(100 * kMiB);
  {
    auto early = promise(50 * kMiB);
    ASSERT_TRUE(early.ok());
    const PromiseSharing sharing(
        {.words = shared_->words, .own = 2, .alive = [](int) { return true; }, .lock_file = -1});
    EXPECT_EQ(shared_->words[2].bytes.load(), 50 * kMiB);
    // Another place of the same process, as when two of its ranks join, counts once.
    const PromiseSharing again(
        {.words = shared_->words, .own = 3, .alive = [](int) { return true; }, .lock_file = -1});
    EXPECT_EQ(shared_->words[3].bytes.load(), 50 * kMiB);
    EXPECT_TRUE(promise(50 * kMiB).ok());
    early->keep(20 * kMiB);
    EXPECT_EQ(shared_->words[2].bytes.load(), 30 * kMiB);
    // And a child's copy of its parent's promise is nothing.
    const pid_t child = fork();
    if (child == 0) {
      early->keep(1);
      early = Status(StatusCode::kInternal, "gone");
      _exit(shared_->words[2].bytes.load() == 30 * kMiB ? 0 : 1);
    }
    int state = -1;
    waitpid(child, &state, 0);
    EXPECT_EQ(state, 0);
  }
  EXPECT_EQ(shared_->words[2].bytes.load(), 0u);
}

}  // namespace
}  // namespace tandem::platform
