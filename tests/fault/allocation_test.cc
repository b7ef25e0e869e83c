// SPDX-License-Identifier: Apache-2.0
//
// "The library never throws", and no shortage of memory is a crash or a hang: every allocation of
// what a program does with the library fails in its turn (broken_run.h), on 1 to 8 thread ranks.
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tandem/tandem.h"
#include "tests/fault/broken_run.h"
#include "tests/fault/failing_new.h"
#include "tests/fault/life.h"

namespace tandem::testing_fault {
namespace {

// Nothing should wait for this long: who fails says so.
constexpr std::chrono::seconds kTimeout{5};

using RankBody = std::function<Status(const World&)>;

/// A world of thread ranks, one body for each; a rank leaves when its body has ended.
std::vector<Status> on_thread_ranks(const std::vector<RankBody>& bodies) {
  std::vector<World> worlds;
  std::vector<Status> made;
  add(made, [&] {
    auto result = World::threads(static_cast<int>(bodies.size()), {.timeout = kTimeout});
    const Spared own;
    if (result.ok()) worlds = std::move(*result);
    return result.status();
  });
  const Spared own;
  if (worlds.empty()) return made;
  std::vector<std::vector<Status>> outcomes(bodies.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < bodies.size(); ++r) {
    threads.emplace_back([&, r, world = std::optional<World>(std::move(worlds[r]))]() mutable {
      add(outcomes[r], [&] { return bodies[r](*world); });
      world.reset();
    });
  }
  worlds.clear();
  for (std::thread& thread : threads) thread.join();
  std::vector<Status> all;
  for (const auto& of_rank : outcomes) all.insert(all.end(), of_rank.begin(), of_rank.end());
  return all;
}

class AllocationOnRanks : public ::testing::TestWithParam<int> {};

TEST_P(AllocationOnRanks, FailsInTheLifeOfAnOperator) {
  const int ranks = GetParam();
  for (const Way& way : ways()) {
    std::vector<std::unique_ptr<Life>> lives;
    std::vector<RankBody> bodies;
    for (int r = 0; r < ranks; ++r) {
      lives.push_back(std::make_unique<Life>(way, r, ranks, 1));
      bodies.push_back(
          [life = lives.back().get()](const World& world) { return life->live(world); });
    }
    sweep(fmt::format("{} on {} ranks", way.name, ranks), [&] { return on_thread_ranks(bodies); });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllocationOnRanks, ::testing::Values(1, 2, 3, 8),
                         [](const auto& ranks) { return std::to_string(ranks.param); });

TEST(Allocation, FailsInAMeasurement) {
  MeasureSpec spec{.rows = {30, 20}, .k = 64, .n = 32, .iterations = 2, .warmup = 1};
  spec.options.compute_threads = 2;
  const RankBody body = [&](const World& world) {
    auto measured = measure(world, spec);
    const Spared own;
    return measured.status();
  };
  const std::vector<RankBody> bodies{body, body};
  sweep("measure", [&] { return on_thread_ranks(bodies); });
  spec.activations = ActivationKind::quantised;
  spec.a_type = DType::f32;
  sweep("measure, quantised", [&] { return on_thread_ranks(bodies); });
}

/// Runs each call, whatever became of those before.
Sequence each_of(std::vector<std::function<Status()>> calls) {
  return [calls = std::move(calls)] {
    std::vector<Status> outcomes;
    for (const auto& call : calls) add(outcomes, call);
    return outcomes;
  };
}

template <class T>
Status status_of(const Result<T>& result) {
  const Spared own;
  return result.status();
}

/// Of a call that is wrong: that it is refused for that is a success.
Status refused(const Status& status) {
  const Spared own;
  return status.code() == StatusCode::kInvalidArgument ? Status() : status;
}

TEST(Allocation, FailsInReferences) {
  constexpr std::int64_t kM = 20, kK = 50, kN = 30;
  std::vector<float> a(kM * kK), b(kK * kN), c(kM * kN), scales(kM, 1.0F);
  std::vector<std::int8_t> q(kM * kK), w(kK * kN);
  std::vector<std::int32_t> sums(kM * kN);
  const Matrix A = dense(a.data(), DType::f32, kM, kK), B = dense(b.data(), DType::f32, kK, kN);
  const Matrix C = dense(c.data(), DType::f32, kM, kN), Q = dense(q.data(), DType::s8, kM, kK);
  const Matrix W = dense(w.data(), DType::s8, kK, kN);
  const Matrix S = dense(sums.data(), DType::s32, kM, kN);
  for (const Matrix& m : {A, B, W}) fill_random(m, 3);
  const float one = 1.0F;
  const Dequantisation scale{.scale = {&one, 1}};
  sweep("references", each_of({
                          [&] { return reference_gemm(A, B, BLayout::kn, C, 3); },
                          [&] { return reference_quantise(A, Q, scales); },
                          [&] {
                            return reference_gemm_dequant(
                                {.a = Q, .b = W, .dequantisation = scale, .row_scale = scales}, C,
                                2);
                          },
                          [&] { return reference_gemm_dequant({.a = Q, .b = W}, S); },
                          [&] { return reference_dequantise(S, scale, scales, C, 2); },
                          [&] { return status_of(compare(C, C)); },
                      }));
  sweep("product check", each_of({[&] {
          auto check = ProductCheck::create(W, BLayout::kn, {}, 7);
          return check.ok() ? status_of(check->first_wrong_row(Q, S)) : status_of(check);
        }}));
}

TEST(Allocation, FailsInPacking) {
  constexpr std::int64_t kK = 300, kN = 100;
  std::vector<float> b(kK * kN);
  const std::vector<std::int32_t> bias(kN, 5);
  fill_random(dense(b.data(), DType::f32, kK, kN), 4);
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::s8}) {
    const auto bias_here = type == DType::s8 ? std::span(bias) : std::span<const std::int32_t>();
    sweep(fmt::format("pack {}", name(type)), each_of({[&] {
            return status_of(PackedWeights::pack(dense(b.data(), type, kK, kN),
                                                 {.threads = 3, .bias = bias_here}));
          }}));
  }
}

TEST(Allocation, FailsInWhatPlansAndStarts) {
  sweep("plan", each_of({[] { return status_of(make_plan({.rows = 500}, {})); },
                         [] { return refused(status_of(make_plan({.rows = 0}, {}))); }}));
  sweep("texts",
        each_of({[] { return status_of(parse_link("1Gbit/s,50us,jitter=3us,seed=4")); },
                 [] {
                   std::vector<int> list;
                   {
                     const Spared own;
                     list = {0};
                   }
                   return check_devices(list);
                 },
                 [] {
                   return status_of(workspace_bytes(3, 100, DType::f16, false, {.max_rows = 10}));
                 }}));
  sweep("launch", each_of({[] {
          LaunchSpec spec;
          {
            const Spared own;
            spec = {.size = 3, .command = {"true"}, .environment = {"A_LONG_NAME=a long value"}};
          }
          return status_of(launch(spec));
        }}));
  sweep("a world of this process", each_of({[] { return status_of(World::from_environment()); }}));
}

/// What returns no Status has only an exception to say so with.
TEST(Allocation, FailsInWhatReturnsNoStatus) {
  const auto value = [](auto&& make) {
    return [make] {
      try {
        (void)make();
      } catch (const std::bad_alloc&) {
      }
      return Status();
    };
  };
  sweep("values", each_of({value([] { return system_info(); }), value([] { return version(); }),
                           value([] { return kernel_targets(); }), value([] { return devices(); }),
                           value([] { return to_string(Link{}); }), value([] {
                             return Comparison{.elements = 3, .different = 1}.text();
                           })}));
}

}  // namespace
}  // namespace tandem::testing_fault
