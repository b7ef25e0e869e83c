// SPDX-License-Identifier: Apache-2.0
//
// Bad arguments to every public function that is no operator: each is an error that names the
// argument, and nothing is read or written. One table; operators have theirs in validation_test.cc.
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/tandem.h"

namespace tandem {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
constexpr auto kNoType = static_cast<DType>(99);
constexpr auto kNoLayout = static_cast<BLayout>(99);

struct Case {
  const char* what;
  std::function<Status()> call;
  const char* word;
  StatusCode code = StatusCode::kInvalidArgument;
};

/// Memory for all matrices here, apart from each other.
struct Memory {
  alignas(64) std::byte a[4096]{}, b[4096]{}, c[4096]{};
  float factors[8]{1, 1, 1, 1, 1, 1, 1, 1};
} memory;

Matrix a(DType type, std::int64_t rows = 3, std::int64_t cols = 4) {
  return dense(memory.a, type, rows, cols);
}
Matrix b(DType type, std::int64_t rows = 4, std::int64_t cols = 5) {
  return dense(memory.b, type, rows, cols);
}
Matrix c(DType type, std::int64_t rows = 3, std::int64_t cols = 5) {
  return dense(memory.c, type, rows, cols);
}
Matrix null(Matrix m) {
  m.data = nullptr;
  return m;
}
Matrix stride(Matrix m, std::int64_t stride) {
  m.stride = stride;
  return m;
}

/// Every way in which a view is wrong by itself, for `call(view)`; `m` is a right one.
void add_views(std::vector<Case>& cases, const char* what, Matrix m,
               const std::function<Status(Matrix)>& call) {
  const auto add = [&](const char* word, Matrix wrong) {
    cases.push_back({what, [=] { return call(wrong); }, word});
  };
  add("null", null(m));
  add("stride", stride(m, m.cols - 1));
  add("stride", stride(m, -m.cols));
  add("stride", stride(m, std::numeric_limits<std::int64_t>::min()));
  add("more than any memory", stride(m, kHuge));
  Matrix wrong = m;
  wrong.type = kNoType;
  add("unknown", wrong);
  wrong = m;
  wrong.rows = -1;
  add("-1", wrong);
  wrong = m;
  wrong.cols = std::numeric_limits<std::int64_t>::min();
  add("-9223372036854775808", wrong);
}

void expect_refused(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const Status status = c.call();
    EXPECT_EQ(status.code(), c.code) << c.what << " (" << c.word << "): " << status.message();
    EXPECT_THAT(status.message(), HasSubstr(c.word)) << c.what;
  }
}

TEST(BadArguments, OfTheFloatReference) {
  constexpr DType f = DType::f32;
  constexpr BLayout kn = BLayout::kn;
  std::vector<Case> cases{
      {"K", [] { return reference_gemm(a(f), b(f, 3), kn, c(f)); }, "b is 3 x 5"},
      {"K = 0", [] { return reference_gemm(a(f, 3, 0), b(f, 0, 5), kn, c(f)); }, "K is 0"},
      {"shape", [] { return reference_gemm(a(f), b(f), kn, c(f, 3, 4)); }, "c is 3 x 4"},
      {"type of b", [] { return reference_gemm(a(f), b(DType::f16), kn, c(f)); }, "b has type f16"},
      {"s8", [] { return reference_gemm(a(DType::s8), b(DType::s8), kn, c(f)); }, "a has type s8"},
      {"layout", [] { return reference_gemm(a(f), b(f, 5, 4), kNoLayout, c(f)); }, "layout"},
      {"threads", [] { return reference_gemm(a(f), b(f), kn, c(f), 0); }, "threads is 0"},
      {"threads", [] { return reference_gemm(a(f), b(f), kn, c(f), -7); }, "threads is -7"},
      {"threads", [] { return reference_gemm(a(f), b(f), kn, c(f), 1 << 30); }, "1024"},
      {"overlap",
       [] {
         const Matrix over = dense(memory.a + 16, f, 3, 5);
         return reference_gemm(a(f), b(f), kn, over);
       },
       "a and c overlap"},
      {"overlap",
       [] {
         const Matrix over = dense(memory.b, f, 3, 5);
         return reference_gemm(a(f), b(f), kn, over);
       },
       "b and c overlap"}};
  add_views(cases, "a", a(f), [](Matrix m) { return reference_gemm(m, b(f), kn, c(f)); });
  add_views(cases, "b", b(f), [](Matrix m) { return reference_gemm(a(f), m, kn, c(f)); });
  add_views(cases, "c", c(f), [](Matrix m) { return reference_gemm(a(f), b(f), kn, m); });
  expect_refused(cases);
}

DequantReference problem() {
  return {.a = a(DType::s8),
          .b = b(DType::s8),
          .dequantisation = {.scale = std::span(memory.factors, 5),
                             .requantise = std::span(memory.factors, 1)}};
}

TEST(BadArguments, OfTheIntegerReference) {
  static const std::int32_t kBias[5]{};
  const auto with = [](const std::function<void(DequantReference&)>& change, Matrix to,
                       int threads = 1) {
    return [=] {
      DequantReference p = problem();
      change(p);
      return reference_gemm_dequant(p, to, threads);
    };
  };
  const auto nothing = [](DequantReference&) {};
  const auto scale = [](std::span<const float> s) {
    return [s](DequantReference& p) { p.dequantisation.scale = s; };
  };
  const std::span<const float> none(static_cast<const float*>(nullptr), 5);
  const Matrix f16 = c(DType::f16);
  std::vector<Case> cases{
      {"scale", with(scale({}), f16), "scale has 0 entries"},
      {"scale", with(scale(std::span(memory.factors, 4)), f16), "scale has 4 entries"},
      {"scale", with(scale(none), f16), "null"},
      {"requantise", with([](auto& p) { p.dequantisation.requantise = {}; }, c(DType::s8)),
       "requantise has 0 entries"},
      {"row_scale", with([](auto& p) { p.row_scale = std::span(memory.factors, 2); }, f16),
       "row_scale has 2 entries for 3 rows"},
      {"bias", with([](auto& p) { p.bias = std::span(kBias, 3); }, f16), "bias has 3 entries"},
      {"layout", with([](auto& p) { p.layout = kNoLayout; }, f16), "layout"},
      {"K = 0",
       with(
           [](auto& p) {
             p.a.cols = 0;
             p.b.rows = 0;
           },
           f16),
       "K is 0"},
      {"threads", with(nothing, f16, 0), "threads is 0"},
      {"threads", with(nothing, f16, 1025), "threads is 1025"},
      {"c", with(nothing, c(DType::f16, 3, 4)), "c is 3 x 4"},
      {"overlap", with(nothing, dense(memory.b, DType::s32, 3, 5)), "b and c overlap"},
      {"overlap", with(nothing, dense(memory.factors, DType::s8, 3, 5)), "scale and c overlap"}};
  add_views(cases, "a", a(DType::s8), [](Matrix m) {
    DequantReference p = problem();
    p.a = m;
    return reference_gemm_dequant(p, c(DType::f32));
  });
  add_views(cases, "b", b(DType::s8), [](Matrix m) {
    DequantReference p = problem();
    p.b = m;
    return reference_gemm_dequant(p, c(DType::f32));
  });
  add_views(cases, "c", c(DType::f16),
            [](Matrix m) { return reference_gemm_dequant(problem(), m); });
  expect_refused(cases);
}

TEST(BadArguments, OfTheLastStepAlone) {
  const Matrix sums = dense(memory.a, DType::s32, 3, 5);
  const auto with = [=](std::span<const float> scale, std::span<const float> rows, Matrix to,
                        int threads = 1) {
    return [=] { return reference_dequantise(sums, {.scale = scale}, rows, to, threads); };
  };
  const std::span<const float> five(memory.factors, 5), two(memory.factors, 2);
  const Matrix f16 = c(DType::f16);
  std::vector<Case> cases{
      {"scale", with({}, {}, f16), "scale has 0"},
      {"scale", with(two, {}, f16), "scale has 2"},
      {"row_scale", with(five, two, f16), "row_scale has 2"},
      {"requantise", with(five, {}, c(DType::s8)), "requantise has 0"},
      {"threads", with(five, {}, f16, 0), "threads is 0"},
      {"c", with(five, {}, c(DType::f16, 2, 5)), "c is 2 x 5"},
      {"overlap", with(five, {}, dense(memory.a, DType::f32, 3, 5)), "sums and c overlap"}};
  add_views(cases, "sums", sums,
            [=](Matrix m) { return reference_dequantise(m, {.scale = five}, {}, f16); });
  add_views(cases, "c", f16,
            [=](Matrix m) { return reference_dequantise(sums, {.scale = five}, {}, m); });
  expect_refused(cases);
}

TEST(BadArguments, OfQuantisation) {
  const Matrix q = dense(memory.c, DType::s8, 3, 4);
  const std::span<float> three(memory.factors, 3);
  std::vector<Case> cases{
      {"row_scale",
       [=] {
         return reference_quantise(a(DType::f32), q, {memory.factors, 2});
       },
       "row_scale has 2 entries for 3 rows"},
      {"row_scale",
       [=] {
         return reference_quantise(a(DType::f32), q, {static_cast<float*>(nullptr), 3});
       },
       "null"},
      {"shape",
       [=] { return reference_quantise(a(DType::f32), dense(memory.c, DType::s8, 3, 5), three); },
       "q is 3 x 5"},
      {"overlap",
       [=] { return reference_quantise(a(DType::f32), dense(memory.a, DType::s8, 3, 4), three); },
       "a and q overlap"}};
  add_views(cases, "a", a(DType::f32), [=](Matrix m) { return reference_quantise(m, q, three); });
  add_views(cases, "q", q, [=](Matrix m) { return reference_quantise(a(DType::f32), m, three); });
  expect_refused(cases);
}

TEST(BadArguments, OfComparison) {
  // Both views are wrong alike: what differs is refused for that.
  std::vector<Case> cases{
      {"shapes", [] { return compare(a(DType::f32), a(DType::f32, 3, 3)).status(); }, "must match"},
      {"types", [] { return compare(a(DType::f32), a(DType::s32)).status(); }, "must match"},
      {"one null", [] { return compare(a(DType::f32), null(a(DType::f32))).status(); }, "null"}};
  add_views(cases, "both", a(DType::f16), [](Matrix m) { return compare(m, m).status(); });
  expect_refused(cases);
}

TEST(BadArguments, OfRandomInputsAreLeftAlone) {
  Memory before = memory;
  std::vector<Case> views;
  add_views(views, "m", c(DType::f32), [](Matrix m) {
    fill_random(m, 1);
    return Status(StatusCode::kInvalidArgument, "");
  });
  for (const Case& view : views) (void)view.call();
  fill_random(c(DType::s32), 1);
  fill_random({nullptr, DType::f32, 7, 0, 9}, 1);
  fill_random({nullptr, DType::f32, 0, 9, 9}, 1);
  EXPECT_EQ(std::memcmp(before.c, memory.c, sizeof memory.c), 0);
  fill_random(c(DType::f32), 1, kHuge);  // any row number
}

TEST(BadArguments, OfTheProductCheck) {
  static const std::int32_t kBias[5]{};
  const auto create = [](Matrix m, BLayout layout, std::span<const std::int32_t> bias) {
    return [=] { return ProductCheck::create(m, layout, bias, 1).status(); };
  };
  std::vector<Case> cases{
      {"bias", create(b(DType::s8), BLayout::kn, std::span(kBias, 4)), "bias has 4 entries"},
      {"bias", create(b(DType::s8), BLayout::kn, {static_cast<const std::int32_t*>(nullptr), 5}),
       "null"},
      {"layout", create(b(DType::s8), kNoLayout, {}), "layout"},
      {"K = 0", create(b(DType::s8, 0, 5), BLayout::kn, {}), "K is 0"},
      {"N = 0", create(b(DType::s8, 4, 0), BLayout::kn, {}), "N is 0"}};
  add_views(cases, "b", b(DType::s8),
            [](Matrix m) { return ProductCheck::create(m, BLayout::kn, {}, 1).status(); });
  auto check = ProductCheck::create(b(DType::s8), BLayout::kn, {}, 1);
  ASSERT_TRUE(check.ok());
  add_views(cases, "a", a(DType::s8),
            [&](Matrix m) { return check->first_wrong_row(m, c(DType::s32)).status(); });
  add_views(cases, "sums", c(DType::s32),
            [&](Matrix m) { return check->first_wrong_row(a(DType::s8), m).status(); });
  expect_refused(cases);
}

TEST(BadArguments, OfPacking) {
  static const std::int32_t kBias[5]{};
  const auto pack = [](Matrix m, PackOptions options) {
    return [=] { return PackedWeights::pack(m, options).status(); };
  };
  constexpr std::int64_t kLong = std::int64_t{1} << 59;
  std::vector<Case> cases{
      {"layout", pack(b(DType::f16), {.layout = kNoLayout}), "layout"},
      {"threads", pack(b(DType::f16), {.threads = -1}), "threads is -1"},
      {"threads", pack(b(DType::f16), {.threads = 1 << 30}), "1024"},
      {"kernel", pack(b(DType::f16), {.kernel = ""}), "kernel", StatusCode::kInvalidArgument},
      {"bias", pack(b(DType::f16), {.bias = std::span(kBias)}), "bias"},
      {"bias", pack(b(DType::s8), {.bias = std::span(kBias, 2)}), "bias has 2 entries"},
      {"bias", pack(b(DType::s8), {.bias = {static_cast<const std::int32_t*>(nullptr), 5}}),
       "null"},
      {"K = 0", pack(b(DType::f16, 0, 5), {}), "K is 0"},
      {"N = 0", pack(b(DType::f16, 4, 0), {}), "N is 0"},
      // No memory holds it, and its packed form has a size that no integer holds.
      {"huge", pack(b(DType::f32, kLong, 1), {}), "b", StatusCode::kOutOfMemory},
      {"huge", pack(b(DType::s8, kLong, 1), {.layout = BLayout::nk}), "b",
       StatusCode::kOutOfMemory}};
  add_views(cases, "b", b(DType::f16), [](Matrix m) { return PackedWeights::pack(m).status(); });
  expect_refused(cases);
}

TEST(BadArguments, OfMeasurements) {
  auto worlds = World::threads(1);
  ASSERT_TRUE(worlds.ok());
  const auto with = [&](const std::function<void(MeasureSpec&)>& change) {
    return [&, change] {
      MeasureSpec spec{.rows = {4}, .k = 8, .n = 8, .iterations = 1, .warmup = 0};
      change(spec);
      return measure((*worlds)[0], spec).status();
    };
  };
  const std::vector<Case> cases{
      {"no rows", with([](auto& s) { s.rows = {}; }), "rows has 0 entries"},
      {"rows", with([](auto& s) { s.rows = {-1}; }), "rows is -1"},
      {"rows", with([](auto& s) { s.rows = {kHuge}; }), "A has"},
      {"K", with([](auto& s) { s.k = 0; }), "K is 0"},
      {"K", with([](auto& s) { s.k = kHuge; }), "more than any memory"},
      {"N", with([](auto& s) { s.n = -5; }), "N is -5"},
      {"N", with([](auto& s) { s.n = kHuge; }), "more than any memory"},
      {"type", with([](auto& s) { s.a_type = kNoType; }), "A has type unknown"},
      {"type", with([](auto& s) { s.c_type = kNoType; }), "C has type unknown"},
      {"layout", with([](auto& s) { s.b_layout = kNoLayout; }), "layout"},
      {"activations", with([](auto& s) { s.activations = static_cast<ActivationKind>(9); }),
       "activations is 9"},
      {"iterations", with([](auto& s) { s.iterations = 0; }), "iterations is 0"},
      {"warmup", with([](auto& s) { s.warmup = -1; }), "warmup is -1"},
      {"budget", with([](auto& s) { s.time_budget = std::chrono::milliseconds(-1); }),
       "time_budget"},
      {"kernel", with([](auto& s) { s.kernel = "pdp11"; }), "pdp11"},
      {"no world", [] { return measure(World(nullptr), {.rows = {1}}).status(); }, "world"}};
  expect_refused(cases);
}

TEST(BadArguments, OfPlans) {
  const auto with = [](const std::function<void(PlanShape&, PlanMachine&, PlanChoice&)>& change) {
    return [=] {
      PlanShape shape{.ranks = 4};
      PlanMachine machine;
      PlanChoice choice;
      change(shape, machine, choice);
      return make_plan(shape, machine, choice).status();
    };
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::vector<Case> cases{
      {"ranks", with([](auto& s, auto&, auto&) { s.ranks = 0; }), "ranks is 0"},
      {"rows", with([](auto& s, auto&, auto&) { s.rows = -3; }), "rows is -3"},
      {"rows", with([](auto& s, auto&, auto&) { s.rows = kHuge; }), "rows is"},
      {"K", with([](auto& s, auto&, auto&) { s.k = 0; }), "K is 0"},
      {"N", with([](auto& s, auto&, auto&) { s.n = kHuge; }), "N is"},
      {"bytes", with([](auto& s, auto&, auto&) { s.element_bytes = kHuge; }), "element_bytes"},
      {"bytes", with([](auto& s, auto&, auto&) { s.element_bytes = std::int64_t{1} << 40; }),
       "element_bytes"},
      {"block_rows", with([](auto& s, auto&, auto&) { s.block_rows = kHuge; }), "block_rows"},
      {"quantum", with([](auto& s, auto&, auto&) { s.block_quantum = kHuge; }), "block_quantum"},
      {"tile_m", with([](auto&, auto&, auto& c) { c.tile_m = kHuge; }), "tile_m"},
      {"tile_k", with([](auto&, auto&, auto& c) { c.tile_k = -1; }), "tile_k"},
      {"transfer", with([](auto&, auto&, auto& c) { c.transfer = static_cast<Transfer>(7); }),
       "transfer is 7"},
      {"wiring", with([](auto&, auto& m, auto&) { m.wiring = static_cast<Wiring>(5); }),
       "wiring is 5"},
      {"flops", with([](auto&, auto& m, auto&) { m.rank_flops = kNan; }), "rank_flops"},
      {"bandwidth", with([](auto&, auto& m, auto&) { m.link.bytes_per_second = kInf; }),
       "bandwidth"},
      {"latency",
       with([](auto&, auto& m, auto&) { m.link.latency = std::chrono::nanoseconds(-1); }),
       "latency"},
      {"memory", with([](auto&, auto& m, auto&) { m.memory_bytes_per_second = 0; }), "memory"},
      {"chunk_seconds", with([](auto&, auto& m, auto&) { m.chunk_seconds = -1; }), "chunk_seconds"},
      {"per node", with([](auto&, auto& m, auto&) { m.ranks_per_node = 0; }), "ranks_per_node"}};
  expect_refused(cases);

  // The largest and the smallest that are allowed, without overflow (UndefinedBehaviorSanitizer).
  constexpr std::int64_t kMost = std::int64_t{1} << 57;
  for (const Wiring wiring : {Wiring::shared, Wiring::mesh}) {
    for (const double real : {std::numeric_limits<double>::max(), 5e-324}) {
      const PlanMachine machine{.rank_flops = real,
                                .link = {.bytes_per_second = real},
                                .wiring = wiring,
                                .memory_bytes_per_second = real};
      for (const std::int64_t size : {std::int64_t{1}, kMost}) {
        EXPECT_TRUE(make_plan({.ranks = std::numeric_limits<int>::max(),
                               .rows = size,
                               .k = 1,
                               .n = size,
                               .element_bytes = 1,
                               .block_rows = size,
                               .block_quantum = size},
                              machine, {.tile_m = size, .tile_k = size})
                        .ok());
        EXPECT_TRUE(
            make_plan(
                {.rows = 1, .k = size, .element_bytes = 1, .block_rows = 1, .block_quantum = size},
                machine)
                .ok());
      }
    }
  }
}

TEST(BadArguments, NamesAndTexts) {
  EXPECT_EQ(size_of(kNoType), 0u);
  EXPECT_EQ(name(kNoType), "unknown");
  EXPECT_EQ(name(kNoLayout), "unknown");
  EXPECT_EQ(name(static_cast<Transfer>(99)), "unknown");
  EXPECT_EQ(name(static_cast<TransportKind>(99)), "unknown");
  EXPECT_EQ(name(static_cast<Wiring>(99)), "unknown");
  EXPECT_EQ(name(static_cast<Bound>(99)), "unknown");
  EXPECT_EQ(name(static_cast<Workspace>(99)), "unknown");
  EXPECT_EQ(name(static_cast<StatusCode>(99)), "unknown");
  EXPECT_FALSE(parse_dtype({}));
  EXPECT_FALSE(parse_b_layout("KN"));
  EXPECT_FALSE(parse_transfer(std::string_view("pull\0", 5)));
  for (const char* text :
       {"", ",", "1", "-1Gbit/s", "nanGbit/s", "infGbit/s", "1e999Gbit/s", "1Gbit/s,",
        "1Gbit/s,-1us", "1Gbit/s,1e99s", "1Gbit/s,1us,1us", "1Gbit/s,seed=-1",
        "1Gbit/s,seed=99999999999999999999", "1Gbit/s,jitter="}) {
    if (std::string_view(text) == "1Gbit/s,") continue;  // a bandwidth alone
    const auto link = parse_link(text);
    EXPECT_EQ(link.status().code(), StatusCode::kInvalidArgument) << text;
  }
  const Link odd{.bytes_per_second = std::numeric_limits<double>::quiet_NaN(),
                 .latency = std::chrono::nanoseconds::min(),
                 .jitter = std::chrono::nanoseconds::max()};
  EXPECT_THAT(to_string(odd), HasSubstr("nan"));
}

}  // namespace
}  // namespace tandem
