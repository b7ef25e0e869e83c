// SPDX-License-Identifier: Apache-2.0
//
// Bad input to the operator and to packing: each a clear error that names value and bound, and
// nothing changed: the next good call works.
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/multi/problem.h"

namespace tandem {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_ranks::Buffer;
using testing_ranks::Problem;

class Validation : public testing::Test {
 protected:
  void SetUp() override {
    auto worlds = World::threads(1);
    ASSERT_TRUE(worlds.ok()) << worlds.status().message();
    world_.emplace((*worlds)[0]);
    auto op = AllGatherGemm::create(*world_, problem_.weights().value(), {.max_rows = 20});
    ASSERT_TRUE(op.ok()) << op.status().message();
    op_.emplace(std::move(op).value());
  }

  void expect_invalid(const AllGatherGemmCall& call, std::vector<std::string> words) {
    const Status status = op_->run(call);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.message();
    for (const std::string& word : words) EXPECT_THAT(status.message(), HasSubstr(word));
    c_.poison();
    const Status good = op_->run({.a = problem_.a(), .c = c_.view()});
    EXPECT_TRUE(good.ok()) << good.message();
    problem_.expect_equal(c_.view());
  }

  Problem problem_{{.rows = {10}, .k = 40, .n = 17}};
  Buffer c_{DType::f32, 10, 17};
  std::optional<World> world_;
  std::optional<AllGatherGemm> op_;
};

TEST_F(Validation, WrongShapes) {
  ConstMatrix a = problem_.a();
  a.cols = 39;
  expect_invalid({.a = a, .c = c_.view()}, {"a is 10 x 39", "10 x 40"});
  Matrix c = c_.view();
  c.rows = 9;
  expect_invalid({.a = problem_.a(), .c = c}, {"c is 9 x 17", "10 x 17"});
}

TEST_F(Validation, StrideBelowColumns) {
  ConstMatrix a = problem_.a();
  a.stride = 39;
  expect_invalid({.a = a, .c = c_.view()}, {"stride of 39", "40 columns"});
}

TEST_F(Validation, NullPointers) {
  ConstMatrix a = problem_.a();
  a.data = nullptr;
  expect_invalid({.a = a, .c = c_.view()}, {"a is 10 x 40", "null"});
  Matrix c = c_.view();
  c.data = nullptr;
  expect_invalid({.a = problem_.a(), .c = c}, {"c is 10 x 17", "null"});
}

TEST_F(Validation, WrongTypes) {
  ConstMatrix a = problem_.a();
  a.type = DType::bf16;
  expect_invalid({.a = a, .c = c_.view()}, {"a has type bf16", "f16"});
  Matrix c = c_.view();
  c.type = DType::s8;
  expect_invalid({.a = problem_.a(), .c = c}, {"c has type s8", "f32, f16 or bf16"});
  c.type = static_cast<DType>(77);
  expect_invalid({.a = problem_.a(), .c = c}, {"c has type unknown"});
}

TEST_F(Validation, RowsOverCapacityOrOfTheWrongCount) {
  Buffer a(DType::f16, 21, 40), c(DType::f32, 21, 17);
  expect_invalid({.a = a.view(), .c = c.view()}, {"rank 0 brings 21 rows", "0 to 20", "max_rows"});
  const std::vector<std::int64_t> two{5, 5};
  expect_invalid({.a = problem_.a(), .c = c_.view(), .rows = two}, {"2 entries for 1 ranks"});
  const std::vector<std::int64_t> negative{-1};
  expect_invalid({.a = problem_.a(), .c = c_.view(), .rows = negative}, {"-1 rows"});
}

TEST_F(Validation, OverlappingViews) {
  Buffer both(DType::f32, 40, 40);
  ConstMatrix a = both.view();
  a.type = DType::f16;
  a.rows = 10;
  Matrix c = both.view();
  c.rows = 10;
  c.cols = 17;
  expect_invalid({.a = a, .c = c}, {"a and c overlap"});
  Matrix gathered = both.view();
  gathered.type = DType::f16;
  gathered.rows = 10;
  expect_invalid({.a = problem_.a(), .c = c, .gathered_a = gathered}, {"c and gathered_a overlap"});
}

TEST_F(Validation, InputSlotWithinCapacity) {
  EXPECT_TRUE(op_->acquire_input(20).ok());
  auto over = op_->acquire_input(21);
  ASSERT_FALSE(over.ok());
  EXPECT_THAT(over.status().message(), AllOf(HasSubstr("21"), HasSubstr("20")));
}

TEST(ValidationOfOptions, EachOutOfBoundsIsNamed) {
  auto worlds = World::threads(1);
  ASSERT_TRUE(worlds.ok());
  Problem p({.rows = {4}, .k = 8, .n = 8});
  const PackedWeights weights = p.weights().value();
  const auto expect = [&](AllGatherGemmOptions options, const char* word) {
    auto op = AllGatherGemm::create((*worlds)[0], weights, options);
    ASSERT_FALSE(op.ok()) << word;
    EXPECT_EQ(op.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(op.status().message(), HasSubstr(word));
  };
  expect({}, "max_rows is 0");
  expect({.max_rows = 4, .compute_threads = 0}, "compute_threads is 0");
  expect({.max_rows = 4, .comm_threads = kMaxLanes + 1}, "comm_threads is 17");
  expect({.max_rows = 4, .tile_m = -1}, "tile_m is -1");
  expect({.max_rows = std::int64_t{1} << 60}, "max_rows");
  expect(
      {.max_rows = 4, .transport = {.kind = TransportKind::sim, .link = {.bytes_per_second = 0}}},
      "bandwidth");
}

TEST(ValidationOfOptions, MoreMemoryThanThereIs) {
  auto worlds = World::threads(1);
  ASSERT_TRUE(worlds.ok());
  Problem p({.rows = {4}, .k = 1024, .n = 8});
  auto op =
      AllGatherGemm::create((*worlds)[0], p.weights().value(), {.max_rows = std::int64_t{1} << 30});
  ASSERT_FALSE(op.ok());
  EXPECT_EQ(op.status().code(), StatusCode::kOutOfMemory) << op.status().message();
}

TEST(ValidationOfWeights, EachBadViewIsNamed) {
  Buffer b(DType::f16, 8, 8);
  const auto expect = [](ConstMatrix m, PackOptions options, StatusCode code, const char* word) {
    auto packed = PackedWeights::pack(m, options);
    ASSERT_FALSE(packed.ok()) << word;
    EXPECT_EQ(packed.status().code(), code) << packed.status().message();
    EXPECT_THAT(packed.status().message(), HasSubstr(word));
  };
  ConstMatrix m = b.view();
  m.rows = 0;
  expect(m, {}, StatusCode::kInvalidArgument, "K is 0");
  expect(m, {.layout = BLayout::nk}, StatusCode::kInvalidArgument, "N is 0");
  m = b.view();
  m.data = nullptr;
  expect(m, {}, StatusCode::kInvalidArgument, "null");
  m = b.view();
  m.type = DType::s32;
  expect(m, {}, StatusCode::kInvalidArgument, "s32");
  m = b.view();
  expect(m, {.threads = 0}, StatusCode::kInvalidArgument, "threads is 0");
  expect(m, {.kernel = "pdp11"}, StatusCode::kInvalidArgument, "pdp11");
}

TEST(ValidationOfWeights, TheEnvironmentForcesTheKernel) {
  Buffer b(DType::f16, 8, 8);
  ::setenv("TANDEM_KERNEL", "scalar", 1);
  auto forced = PackedWeights::pack(b.view(), {});
  ::setenv("TANDEM_KERNEL", "z80", 1);
  auto unknown = PackedWeights::pack(b.view(), {});
  ::unsetenv("TANDEM_KERNEL");
  ASSERT_TRUE(forced.ok());
  EXPECT_EQ(forced->kernel(), "scalar");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.status().message(), AllOf(HasSubstr("TANDEM_KERNEL"), HasSubstr("z80")));
}

}  // namespace
}  // namespace tandem
