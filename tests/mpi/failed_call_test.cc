// SPDX-License-Identifier: Apache-2.0
//
// After a call that failed, A and the operator are the caller's to free, whatever the network still
// has of them. A stale read is a SIGSEGV here: A lies in pages that are gone right after the call.
#include <cstring>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/multi/problem.h"
#include "tests/multi/ranks.h"

namespace tandem::testing_ranks {
namespace {

/// A copy of a matrix in pages of its own, unmapped at the end.
class Pages {
 public:
  explicit Pages(ConstMatrix from)
      : bytes_(static_cast<std::size_t>(from.rows * from.stride) * size_of(from.type)),
        data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
        view_(from) {
    std::memcpy(data_, from.data, bytes_);
    view_.data = data_;
  }
  ~Pages() { munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] ConstMatrix view() const { return view_; }

 private:
  std::size_t bytes_;
  void* data_;
  ConstMatrix view_;
};

class FailedCall : public testing::TestWithParam<Transfer> {};

TEST_P(FailedCall, LeavesNothingThatPointsIntoWhatTheCallerFrees) {
  constexpr int kRounds = 12;
  Problem p({.rows = {300, 200, 400}, .k = 1024, .n = 16});
  run_ranks(RanksAs::threads, 3, [&](const World& world) {
    auto weights = p.weights();
    for (int round = 0; round < kRounds; ++round) {
      auto op = AllGatherGemm::create(
          world, *weights,
          {.max_rows = 401, .transfer = GetParam(), .transport = transport_here({})});
      ASSERT_TRUE(op.ok()) << op.status().message();
      std::vector<std::int64_t> rows = p.shape().rows;
      if (world.rank() == 2) rows[0] += 1;
      Buffer c(DType::f32, std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), 16);
      const Pages a(p.a(world.rank()));
      const Status status = op->run({.a = a.view(), .c = c.view(), .rows = rows});
      EXPECT_EQ(status.code(), StatusCode::kMismatch) << status.message();
    }
    // The world is none the worse for it.
    auto op = AllGatherGemm::create(world, *weights, {.max_rows = 400});
    ASSERT_TRUE(op.ok()) << op.status().message();
    Buffer c(DType::f32, p.shape().m(), 16);
    const Status status = op->run({.a = p.a(world.rank()), .c = c.view(), .rows = p.shape().rows});
    ASSERT_TRUE(status.ok()) << status.message();
    p.expect_equal(c.view());
  });
}

INSTANTIATE_TEST_SUITE_P(Transfers, FailedCall, testing::Values(Transfer::pull, Transfer::push),
                         [](const auto& given) {
                           return given.param == Transfer::pull ? "pull" : "push";
                         });

}  // namespace
}  // namespace tandem::testing_ranks
