// SPDX-License-Identifier: Apache-2.0
//
// What users do by mistake, on thread and process ranks: input places of another call, two threads
// in one operator, calls in a forked child. Each is refused by an error; none gives a wrong result.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/multi/problem.h"
#include "tests/multi/ranks.h"

namespace tandem::testing_ranks {
namespace {

using testing::HasSubstr;

void copy_rows(ConstMatrix from, Matrix to) {
  for (std::int64_t i = 0; i < from.rows; ++i) {
    std::memcpy(to.row(i), from.row(i), static_cast<std::size_t>(from.cols) * size_of(from.type));
  }
}

class InputPlace : public testing::TestWithParam<Workspace> {};

TEST_P(InputPlace, IsGoodForTheNextCallOnly) {
  Problem p({.rows = {10, 20}, .k = 64, .n = 16});
  run_ranks(RanksAs::threads, 2, [&](const World& world) {
    auto op = AllGatherGemm::create(world, p.weights(), {.max_rows = 40, .workspace = GetParam()});
    ASSERT_TRUE(op.ok()) << op.status().message();
    Buffer c(DType::f32, 30, 16);
    auto place = op->acquire_input(p.a(world.rank()).rows);
    ASSERT_TRUE(place.ok());
    copy_rows(p.a(world.rank()), *place);
    ASSERT_TRUE(op->run({.a = *place, .c = c.view(), .rows = p.shape().rows}).ok());
    p.expect_equal(c.view());
    // The pointer kept, as somebody would who does not know better.
    const Status kept = op->run({.a = *place, .c = c.view(), .rows = p.shape().rows});
    EXPECT_EQ(kept.code(), StatusCode::kInvalidArgument) << kept.message();
    EXPECT_THAT(kept.message(), HasSubstr("acquire_input()"));
    // An output there is refused as well.
    place = op->acquire_input(p.a(world.rank()).rows);
    ASSERT_TRUE(place.ok()) << place.status().message();
    Matrix inside = *place;
    inside.type = DType::f32;
    inside.rows = 30;
    inside.cols = inside.stride = 16;
    Buffer own(DType::f16, p.a(world.rank()).rows, 64);
    const Status output = op->run({.a = own.view(), .c = inside, .rows = p.shape().rows});
    EXPECT_EQ(output.code(), StatusCode::kInvalidArgument) << output.message();
    // And the operator goes on.
    place = op->acquire_input(p.a(world.rank()).rows);
    ASSERT_TRUE(place.ok()) << place.status().message();
    copy_rows(p.a(world.rank()), *place);
    c.poison();
    const Status status = op->run({.a = *place, .c = c.view(), .rows = p.shape().rows});
    ASSERT_TRUE(status.ok()) << status.message();
    p.expect_equal(c.view());
  });
}
INSTANTIATE_TEST_SUITE_P(Workspaces, InputPlace,
                         testing::Values(Workspace::full, Workspace::direct),
                         [](const auto& param) { return std::string(name(param.param)); });

TEST(TwoThreads, InOneOperatorAreRefused) {
  // Alone, so that a second thread's call would change nobody else's.
  Problem p({.rows = {200}, .k = 512, .n = 256});
  run_ranks(RanksAs::threads, 1, [&](const World& world) {
    auto op = AllGatherGemm::create(world, p.weights(), {.max_rows = 200});
    ASSERT_TRUE(op.ok());
    std::atomic<int> refused{0}, done{0};
    const auto call = [&] {
      Buffer c(DType::f32, 200, 256);
      for (int i = 0; i < 200; ++i) {
        c.poison();
        const Status status = op->run({.a = p.a(0), .c = c.view()});
        if (status.ok()) {
          ++done;
          p.expect_equal(c.view());
        } else {
          ++refused;
          EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
          EXPECT_THAT(status.message(), HasSubstr("another thread"));
          std::this_thread::yield();
        }
      }
    };
    std::thread other(call);
    call();
    other.join();
    EXPECT_GT(done.load(), 0);
    EXPECT_EQ(done.load() + refused.load(), 400);
  });
}

/// What the body says in a child of this process: 0 where all its expectations held.
int in_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // a hang ends as a signal, which the parent sees
    body();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int state = 0;
  ::waitpid(child, &state, 0);
  return state;
}

TEST(Fork, AChildIsRefusedAndTheParentGoesOn) {
  Problem p({.rows = {30, 30}, .k = 700, .n = 64});
  run_ranks(RanksAs::processes, 2, [&](const World& world) {
    std::optional<AllGatherGemm> op;
    auto made = AllGatherGemm::create(world, p.weights(),
                                      {.max_rows = 40, .compute_threads = 2, .comm_threads = 2});
    ASSERT_TRUE(made.ok()) << made.status().message();
    op.emplace(std::move(made).value());
    Buffer c(DType::f32, 60, 64);
    const AllGatherGemmCall call{.a = p.a(world.rank()), .c = c.view(), .rows = p.shape().rows};
    ASSERT_TRUE(op->run(call).ok());
    EXPECT_EQ(in_child([&] {
                EXPECT_EQ(op->run(call).code(), StatusCode::kUnsupported);
                EXPECT_EQ(op->acquire_input(30).status().code(), StatusCode::kUnsupported);
                EXPECT_EQ(world.barrier().code(), StatusCode::kUnsupported);
                EXPECT_EQ(world.all_gather(1).status().code(), StatusCode::kUnsupported);
                EXPECT_EQ(world.refuse({StatusCode::kIo, "x"}).code(), StatusCode::kUnsupported);
                EXPECT_EQ(
                    AllGatherGemm::create(world, p.weights(), {.max_rows = 40}).status().code(),
                    StatusCode::kUnsupported);
                op.reset();  // leaves the threads and the window to the parent
                // A world of the child's own works.
                auto own = World::threads(1);
                ASSERT_TRUE(own.ok()) << own.status().message();
                Problem alone({.rows = {9}, .k = 20, .n = 8});
                auto alone_op = AllGatherGemm::create(own->front(), alone.weights(),
                                                      {.max_rows = 9, .compute_threads = 2});
                ASSERT_TRUE(alone_op.ok()) << alone_op.status().message();
                Buffer result(DType::f32, 9, 8);
                ASSERT_TRUE(alone_op->run({.a = alone.a(0), .c = result.view()}).ok());
                alone.expect_equal(result.view());
              }),
              0);
    for (int i = 0; i < 3; ++i) {
      c.poison();
      const Status status = op->run(call);
      ASSERT_TRUE(status.ok()) << status.message();
      p.expect_equal(c.view());
    }
  });
}

}  // namespace
}  // namespace tandem::testing_ranks
