// SPDX-License-Identifier: Apache-2.0
//
// The caller's floating-point environment: under every rounding mode, with subnormals flushed and
// with exceptions that trap, every public function gives the bits that it gives otherwise, and
// leaves the environment as it found it, flags included.
#include <cfenv>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tandem/tandem.h"
#include "tests/tile/elements.h"

namespace tandem {
namespace {

/// The control and status registers, as far as C++ code sees them.
struct Registers {
  std::uint64_t control = 0, status = 0;
  bool operator==(const Registers&) const = default;

  static Registers read() {
    Registers r;
#if defined(__x86_64__)
    r.control = __builtin_ia32_stmxcsr();
    std::uint16_t x87 = 0;
    asm volatile("fnstcw %0" : "=m"(x87));
    r.status = x87;
#elif defined(__aarch64__)
    asm volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(r.control), "=r"(r.status));
#endif
    return r;
  }
};

void flush_subnormals() {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);  // FTZ and DAZ
#elif defined(__aarch64__)
  const std::uint64_t control = Registers::read().control | 1U << 24 | 1U << 26;  // FZ and AHP
  asm volatile("msr fpcr, %0" ::"r"(control));
#endif
}

void trap_everything() {
  std::feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(FE_ALL_EXCEPT);
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() & ~std::uint32_t{0x1fbf});  // also denormals
#endif
}

struct Setting {
  const char* name;
  std::function<void()> set;
};
const Setting kSettings[] = {
    {"upward", [] { std::fesetround(FE_UPWARD); }},
    {"downward", [] { std::fesetround(FE_DOWNWARD); }},
    {"toward zero", [] { std::fesetround(FE_TOWARDZERO); }},
    {"flush", flush_subnormals},
    {"flush, upward",
     [] {
       flush_subnormals();
       std::fesetround(FE_UPWARD);
     }},
    {"flags raised", [] { std::feraiseexcept(FE_DIVBYZERO | FE_INEXACT); }},
    {"traps", trap_everything}};

/// Bytes that a call produced.
class Bytes {
 public:
  template <class T>
  Bytes& add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& add(const std::string& text) {
    text_ += text;
    return *this;
  }
  template <class T>
  Bytes& add(const std::vector<T>& values) {
    text_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    return *this;
  }
  /// A failure stands in the bytes.
  Bytes& add(const Status& status) { return add(status.message()); }
  bool operator==(const Bytes&) const = default;

 private:
  std::string text_;
};

/// The call gives the same bytes under all settings. It makes no floats of its own.
void expect_same(const char* what, const std::function<Bytes()>& call) {
  const Bytes expected = call();
  for (const Setting& setting : kSettings) {
    std::fenv_t plain;
    std::fegetenv(&plain);
    setting.set();
    const Registers before = Registers::read();
    const Bytes got = call();
    const Registers after = Registers::read();
    std::fesetenv(&plain);
    EXPECT_EQ(got, expected) << what << " depends on the caller's environment: " << setting.name;
    EXPECT_EQ(before, after) << what << " changed the environment: " << setting.name;
  }
}

/// Matrices of random elements, subnormals among them.
struct Inputs {
  static constexpr std::int64_t kM = 70, kK = 300, kN = 33;
  explicit Inputs(DType type_)
      : type(type_),
        a_data(testing::random_elements(type, kM * kK, 1)),
        b_data(testing::random_elements(type, kK * kN, 2)) {}
  [[nodiscard]] ConstMatrix a() const { return dense(a_data.data(), type, kM, kK); }
  [[nodiscard]] ConstMatrix b() const { return dense(b_data.data(), type, kK, kN); }
  DType type;
  std::vector<std::byte> a_data, b_data;
};

struct S8Inputs {
  S8Inputs() : a_data(Inputs::kM * Inputs::kK), b_data(Inputs::kK * Inputs::kN) {
    fill_random(dense(a_data.data(), DType::s8, Inputs::kM, Inputs::kK), 1);
    fill_random(dense(b_data.data(), DType::s8, Inputs::kK, Inputs::kN), 2);
    for (int j = 0; j < Inputs::kN; ++j) scale.push_back(0.1F / static_cast<float>(j + 3));
    scale[1] = 1e-42F;
    for (int i = 0; i < Inputs::kM; ++i) row_scale.push_back(0.7F / static_cast<float>(i + 1));
  }
  [[nodiscard]] ConstMatrix a() const {
    return dense(a_data.data(), DType::s8, Inputs::kM, Inputs::kK);
  }
  [[nodiscard]] ConstMatrix b() const {
    return dense(b_data.data(), DType::s8, Inputs::kK, Inputs::kN);
  }
  [[nodiscard]] Dequantisation dequantisation() const {
    return {.scale = scale, .requantise = requantise};
  }
  std::vector<std::int8_t> a_data, b_data;
  std::vector<float> scale, row_scale, requantise{0.037F};
};

constexpr DType kFloats[] = {DType::f16, DType::bf16, DType::f32};

std::vector<std::byte> room(DType type, std::int64_t rows, std::int64_t cols) {
  return std::vector<std::byte>(static_cast<std::size_t>(rows * cols) * size_of(type));
}

TEST(Environment, OfRandomInputs) {
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::s8}) {
    expect_same("fill_random", [&] {
      auto data = room(type, 7, 100);
      fill_random(dense(data.data(), type, 7, 100), 3);
      return Bytes().add(data);
    });
  }
}

TEST(Environment, OfTheFloatReference) {
  for (DType type : kFloats) {
    const Inputs in(type);
    for (DType c_type : kFloats) {
      for (int threads : {1, 3}) {
        expect_same("reference_gemm", [&] {
          auto c = room(c_type, Inputs::kM, Inputs::kN);
          const Status status =
              reference_gemm(in.a(), in.b(), BLayout::kn,
                             dense(c.data(), c_type, Inputs::kM, Inputs::kN), threads);
          return Bytes().add(status).add(c);
        });
      }
    }
  }
}

TEST(Environment, OfTheIntegerReference) {
  const S8Inputs in;
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::s8, DType::s32}) {
    for (int threads : {1, 3}) {
      const auto whole = [&] {
        auto c = room(type, Inputs::kM, Inputs::kN);
        const Status status = reference_gemm_dequant(
            {in.a(), in.b(), BLayout::kn, {}, in.dequantisation(), in.row_scale},
            dense(c.data(), type, Inputs::kM, Inputs::kN), threads);
        return Bytes().add(status).add(c);
      };
      expect_same("reference_gemm_dequant", whole);
      std::vector<std::int32_t> sums(Inputs::kM * Inputs::kN);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<std::int32_t>(i) * 77;
      expect_same("reference_dequantise", [&] {
        auto c = room(type, Inputs::kM, Inputs::kN);
        const Status status = reference_dequantise(
            dense(sums.data(), DType::s32, Inputs::kM, Inputs::kN), in.dequantisation(),
            in.row_scale, dense(c.data(), type, Inputs::kM, Inputs::kN), threads);
        return Bytes().add(status).add(c);
      });
    }
  }
}

TEST(Environment, OfQuantisation) {
  for (DType type : kFloats) {
    Inputs in(type);
    for (std::int64_t k = 0; k < Inputs::kK; ++k) {
      // A row whose scale is subnormal.
      base::store_element(type, static_cast<float>(k) * 0x1p-140F,
                          in.a_data.data() + static_cast<std::size_t>(k) * size_of(type));
    }
    expect_same("reference_quantise", [&] {
      std::vector<std::int8_t> q(in.a_data.size() / size_of(type));
      std::vector<float> scales(Inputs::kM);
      const Status status =
          reference_quantise(in.a(), dense(q.data(), DType::s8, Inputs::kM, Inputs::kK), scales);
      return Bytes().add(status).add(q).add(scales);
    });
  }
}

TEST(Environment, OfComparison) {
  Inputs in(DType::f32);
  std::vector<std::byte> other = in.a_data;
  for (std::size_t i = 8; i < 4000; i += 40) other[i] ^= std::byte{1};
  expect_same("compare", [&] {
    const auto result = compare(in.a(), dense(other.data(), DType::f32, Inputs::kM, Inputs::kK));
    if (!result.ok()) return Bytes().add(result.status());
    return Bytes().add(result->text()).add(result->max_abs_difference).add(result->different);
  });
}

TEST(Environment, OfTheProductCheck) {
  const S8Inputs in;
  const std::vector<std::int32_t> sums(Inputs::kM * Inputs::kN);
  expect_same("ProductCheck", [&] {
    const auto check = ProductCheck::create(in.b(), BLayout::kn, {}, 1);
    if (!check.ok()) return Bytes().add(check.status());
    const auto row =
        check->first_wrong_row(in.a(), dense(sums.data(), DType::s32, Inputs::kM, Inputs::kN));
    return Bytes().add(row.ok() ? *row : -2);
  });
}

TEST(Environment, OfPlansAndLinks) {
  const PlanShape shape{.ranks = 6, .rows = 999, .k = 777, .n = 333};
  const PlanMachine machine{.link = {.bytes_per_second = 3e8}};
  expect_same("make_plan", [&] {
    const auto plan = make_plan(shape, machine);
    if (!plan.ok()) return Bytes().add(plan.status());
    return Bytes()
        .add(plan->fused_ms)
        .add(plan->sequential_ms)
        .add(plan->overlap_efficiency)
        .add(plan->chunks_per_source)
        .add(plan->compute_bound_from_n);
  });
  expect_same("parse_link", [] {
    const auto link = parse_link("0.3Gbit/s,17.7us,jitter=0.1ms");
    if (!link.ok()) return Bytes().add(link.status());
    return Bytes().add(link->bytes_per_second).add(link->latency.count()).add(to_string(*link));
  });
  expect_same("system_info",
              [] { return Bytes().add(system_info().cores).add(system_info().cpu); });
}

/// One rank's operator, made and called in this thread's environment.
Bytes call(const World& world, const PackedWeights& weights, const Inputs& in,
           const StreamOptions& options) {
  auto op = AllGatherGemm::create(world, weights, options);
  if (!op.ok()) return Bytes().add(op.status());
  auto c = room(DType::f32, world.size() * Inputs::kM, Inputs::kN);
  const Status status = op->run(
      {.a = in.a(), .c = dense(c.data(), DType::f32, world.size() * Inputs::kM, Inputs::kN)});
  return Bytes().add(status).add(op->chunks(Inputs::kM)).add(c);
}

Bytes call_dequant(const World& world, const PackedWeights& weights, const Inputs& in,
                   const S8Inputs& s8, const StreamOptions& options) {
  auto op = AllGatherGemmDequant::create(world, weights, s8.dequantisation(), options,
                                         ActivationKind::quantised);
  if (!op.ok()) return Bytes().add(op.status());
  auto c = room(DType::f16, world.size() * Inputs::kM, Inputs::kN);
  const Status status = op->run(
      {.a = in.a(), .c = dense(c.data(), DType::f16, world.size() * Inputs::kM, Inputs::kN)});
  return Bytes().add(status).add(c);
}

/// body(world) on two ranks in threads that inherit this thread's environment; both bytes.
Bytes on_two_ranks(const std::vector<World>& worlds,
                   const std::function<Bytes(const World&)>& body) {
  Bytes second;
  std::thread other([&] { second = body(worlds[1]); });
  Bytes first = body(worlds[0]);
  other.join();
  EXPECT_EQ(first, second);
  return first;
}

TEST(Environment, OfPackingAndOperators) {
  auto worlds = World::threads(2);
  ASSERT_TRUE(worlds.ok());
  const S8Inputs s8;
  for (DType type : {DType::f16, DType::f32}) {
    const Inputs in(type);
    // Over a link an operator plans its chunks, by the arithmetic of make_plan().
    const TransportKind kind = type == DType::f16 ? TransportKind::sim : TransportKind::shm;
    StreamOptions options{.max_rows = Inputs::kM, .compute_threads = 2};
    options.transport = {.kind = kind, .link = {.bytes_per_second = 1e9, .latency = {}}};
    expect_same("AllGatherGemm", [&] {
      const auto weights = PackedWeights::pack(in.b(), {.threads = 2});
      if (!weights.ok()) return Bytes().add(weights.status());
      return on_two_ranks(*worlds, [&](const World& w) { return call(w, *weights, in, options); });
    });
    expect_same("AllGatherGemmDequant", [&] {
      const auto weights = PackedWeights::pack(s8.b(), {.threads = 2});
      if (!weights.ok()) return Bytes().add(weights.status());
      return on_two_ranks(
          *worlds, [&](const World& w) { return call_dequant(w, *weights, in, s8, options); });
    });
  }
}

TEST(Environment, OfMeasurements) {
  auto worlds = World::threads(1);
  ASSERT_TRUE(worlds.ok());
  for (const bool dequant : {false, true}) {
    MeasureSpec spec{.rows = {20}, .k = 50, .n = 30, .iterations = 1, .warmup = 1};
    spec.time_budget = std::chrono::milliseconds(60000);
    if (dequant) spec.activations = ActivationKind::quantised;
    expect_same("measure", [&] {
      const auto result = measure((*worlds)[0], spec);
      if (!result.ok()) return Bytes().add(result.status());
      return Bytes().add(result->verified).add(result->verified_rows).add(result->mismatch);
    });
  }
}

}  // namespace
}  // namespace tandem
