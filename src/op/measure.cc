// SPDX-License-Identifier: Apache-2.0
//
// The measurement behind `tandem bench`. perform() is the place to start reading: it prepares
// one experiment per rank, interleaves the four modes, and turns times into figures.
#include "tandem/measure.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "base/guarded.h"
#include "op/experiment.h"
#include "op/validate.h"
#include "platform/memory.h"
#include "platform/park.h"
#include "symm/world.h"

namespace tandem {
namespace {

using op::Experiment;
using platform::Clock;

enum Mode : std::size_t { kComputeOnly, kCommOnly, kSequential, kPipelined, kModes };

/// Ranks agree on a moment this far ahead, by when all have left the exchange.
constexpr std::chrono::microseconds kStartDelay{400};
/// Waking takes up to about 100 µs, differently on every rank, and the caller's timers may be 50 µs
/// late: the last moments are polled away.
constexpr std::chrono::microseconds kStartPolling{200};

Timing summarize(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  return {(samples[(n - 1) / 2] + samples[n / 2]) / 2, samples.front(), samples.back()};
}

Status run_once(Experiment& experiment, Mode mode) {
  switch (mode) {
    case kComputeOnly:
      return experiment.multiply();
    case kCommOnly:
      return experiment.gather();
    case kSequential: {
      Status status = experiment.gather();
      return status.ok() ? experiment.multiply() : status;
    }
    default:
      return experiment.fused();
  }
}

struct Took {
  double ms = 0;          ///< until the last rank ended
  double own_cpu_ms = 0;  ///< CPU time of this process
};

/// Runs one mode once; milliseconds from the common start to the last rank's end.
Result<Took> time(const World& world, Experiment& experiment, Mode mode) {
  using Ms = std::chrono::duration<double, std::milli>;
  auto proposals = world.all_gather(Ms((Clock::now() + kStartDelay).time_since_epoch()).count());
  if (!proposals.ok()) return proposals.status();
  Clock::time_point start(std::chrono::duration_cast<Clock::duration>(
      Ms(*std::max_element(proposals->begin(), proposals->end()))));
  // Machines have clocks of their own: there ranks set out when they have heard of each other,
  // about a message's time apart.
  if (world.impl()->machines().count() > 1) start = Clock::now() + kStartDelay;
  platform::sleep_until(start - kStartPolling);
  while (Clock::now() < start) platform::pause();

  const Clock::duration cpu_before = platform::process_cpu_time();
  Status status = run_once(experiment, mode);
  if (!status.ok()) return status;
  const Ms cpu = platform::process_cpu_time() - cpu_before;
  auto all = world.all_gather(Ms(Clock::now() - start).count());
  if (!all.ok()) return all.status();
  return Took{*std::max_element(all->begin(), all->end()), cpu.count()};
}

/// How many rounds are run, and which of them count.
class Rounds {
 public:
  explicit Rounds(const MeasureSpec& spec) : spec_(spec) {}

  /// Collective: whether the next round, after `run` of them, is to be the last.
  Result<bool> is_last(const World& world, int run) const {
    if (run + 1 >= most()) return true;
    return run == 0 ? false : spent(world, run, 2);
  }
  /// Collective: whether already the first was all that the budget allows.
  Result<bool> end_after_first(const World& world, int run) const {
    return run == 1 && run < most() ? spent(world, run, 1) : false;
  }
  [[nodiscard]] bool limited() const { return spec_.time_budget.count() > 0; }
  [[nodiscard]] double fraction(double rounds) const {
    const double by_count = rounds / most();
    if (!limited()) return by_count;
    const std::chrono::duration<double> elapsed = Clock::now() - start_;
    const std::chrono::duration<double> budget = spec_.time_budget;
    return std::min(0.99, std::max(by_count, elapsed / budget));
  }
  void drop_warmup(std::vector<double>& samples) const {
    const auto run = static_cast<int>(samples.size());
    const int drop = run == most() ? spec_.warmup : std::min(spec_.warmup, run / 3);
    samples.erase(samples.begin(), samples.begin() + drop);
  }

 private:
  [[nodiscard]] int most() const { return spec_.warmup + spec_.iterations; }
  /// Whether `more` rounds like those that were run exceed the budget. The first rank's clock
  /// decides for all.
  Result<bool> spent(const World& world, int run, int more) const {
    if (!limited()) return false;
    const std::chrono::duration<double, std::milli> elapsed = Clock::now() - start_;
    const bool over =
        elapsed.count() * (run + more) / run > static_cast<double>(spec_.time_budget.count());
    auto all = world.all_gather(over ? 1 : 0);
    if (!all.ok()) return all.status();
    return all->front() != 0;
  }

  const MeasureSpec& spec_;
  const Clock::time_point start_ = Clock::now();
};

Status check_spec(const World& world, const MeasureSpec& spec) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (spec.rows.size() != static_cast<std::size_t>(world.size())) {
    return {StatusCode::kInvalidArgument,
            fmt::format("rows has {} entries for {} ranks; give the rows of every rank",
                        spec.rows.size(), world.size())};
  }
  std::int64_t m = 0;
  for (std::int64_t rows : spec.rows) {
    if (Status status = op::check_range("rows", rows, 0, kMost); !status.ok()) return status;
    if (__builtin_add_overflow(m, rows, &m)) {
      return {StatusCode::kInvalidArgument, "rows add up to more than 2^63; lower them"};
    }
  }
  if (spec.activations && *spec.activations > ActivationKind::quantised) {
    return {StatusCode::kInvalidArgument,
            fmt::format("activations is {}; it must be one of the named kinds",
                        static_cast<int>(*spec.activations))};
  }
  constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16};
  constexpr DType kS8[] = {DType::s8};
  constexpr DType kOutputs[] = {DType::f16, DType::bf16, DType::f32, DType::s32, DType::s8};
  const bool bytes = spec.activations && *spec.activations != ActivationKind::quantised;
  const std::span<const DType> a_types =
      bytes ? std::span<const DType>(kS8) : std::span<const DType>(kFloats);
  const std::span<const DType> c_types =
      spec.activations ? std::span<const DType>(kOutputs) : std::span<const DType>(kFloats);
  Status status = op::first_failure(
      op::check_range("K", spec.k, 1, kMost), op::check_range("N", spec.n, 1, kMost),
      op::check_layout(spec.b_layout), op::check_range("iterations", spec.iterations, 1, 1000000),
      op::check_range("warmup", spec.warmup, 0, 1000000),
      op::check_range("time_budget (ms)", spec.time_budget.count(), 0, kMost));
  if (!status.ok()) return status;
  // Not where the matrices lie, which is nowhere yet, but whether memory can hold their sizes.
  const auto view = [](DType type, std::int64_t rows, std::int64_t cols) {
    static const std::byte somewhere{};
    return dense(&somewhere, type, rows, cols);
  };
  return op::first_failure(op::check_matrix("A", view(spec.a_type, m, spec.k), a_types),
                           op::check_matrix("B", view(DType::s8, spec.k, spec.n), kS8),
                           op::check_matrix("C", view(spec.c_type, m, spec.n), c_types));
}

void derive(const MeasureSpec& spec, Measurement& out) {
  const double compute = out.compute_only_ms.median, comm = out.comm_only_ms.median;
  const double pipelined = out.pipelined_ms.median;
  const auto m =
      static_cast<double>(std::accumulate(spec.rows.begin(), spec.rows.end(), std::int64_t{0}));
  out.speedup = out.sequential_ms.median / pipelined;
  out.overlap_efficiency = (comm + compute - pipelined) / std::min(comm, compute);
  out.pipelined_over_max = pipelined / std::max(comm, compute);
  out.exposed_comm_ms = pipelined - compute;
  out.gflops_per_rank =
      2 * m * static_cast<double>(spec.k) * static_cast<double>(spec.n) / (pipelined * 1e6);
}

/// Collective: every rank checks its own C.
Status verify(const World& world, Experiment& experiment, Measurement& out) {
  out.peak_rss_mib = platform::peak_rss_mib();
  auto own = experiment.verify();
  if (!own.ok()) return world.refuse(own.status());
  auto different = world.all_gather(static_cast<double>(own->comparison.different));
  if (!different.ok()) return different.status();
  out.verified = std::all_of(different->begin(), different->end(), [](double d) { return d == 0; });
  out.verified_rows = own->rows;
  if (!own->comparison.equal()) {
    out.mismatch = fmt::format("rank {}: {}", world.rank(), own->comparison.text());
  } else if (!out.verified) {
    out.mismatch = "another rank's result differs from the reference";
  }
  return {};
}

/// The measurement itself. What a rank finds wrong for itself it tells the others.
Result<Measurement> perform(const World& world, const MeasureSpec& spec) {
  std::unique_ptr<Experiment> experiment;
  const Status ready = base::guarded([&]() -> Status {
    if (Status status = check_spec(world, spec); !status.ok()) return status;
    platform::forget_peak_rss();
    experiment = Experiment::make(world, spec);
    return experiment->allocate();
  });
  if (!ready.ok()) return world.refuse(ready);
  if (Status status = experiment->prepare(); !status.ok()) return status;
  // Compute-only reads the gathered matrix: one gather first, so that no mode meets untouched
  // pages.
  if (auto first = time(world, *experiment, kCommOnly); !first.ok()) return first.status();

  std::array<std::vector<double>, kModes> samples, cpu_samples;
  const Rounds plan(spec);
  bool last = false, ended = false;
  for (int round = 0; !last && !ended; ++round) {
    auto final_round = plan.is_last(world, round);
    if (!final_round.ok()) return final_round.status();
    last = *final_round;
    for (std::size_t mode = 0; mode < kModes; ++mode) {
      if (mode == kPipelined && (last || (round == 0 && plan.limited()))) experiment->poison_c();
      auto elapsed = time(world, *experiment, static_cast<Mode>(mode));
      if (!elapsed.ok()) return elapsed.status();
      samples[mode].push_back(elapsed->ms);
      cpu_samples[mode].push_back(elapsed->own_cpu_ms);
      if (spec.progress && world.rank() == 0) {
        const auto done = static_cast<double>(mode + 1) / static_cast<double>(std::size_t{kModes});
        spec.progress(plan.fraction(round + done));
      }
    }
    auto enough = plan.end_after_first(world, round + 1);
    if (!enough.ok()) return enough.status();
    ended = *enough;
  }
  if (spec.progress && world.rank() == 0) spec.progress(1.0);

  Measurement out;
  for (std::vector<double>& of_mode : samples) plan.drop_warmup(of_mode);
  out.iterations = static_cast<int>(samples[kPipelined].size());
  out.compute_only_ms = summarize(samples[kComputeOnly]);
  out.comm_only_ms = summarize(samples[kCommOnly]);
  out.sequential_ms = summarize(samples[kSequential]);
  out.pipelined_ms = summarize(samples[kPipelined]);
  for (std::vector<double>& of_mode : cpu_samples) plan.drop_warmup(of_mode);
  auto cpu = world.all_gather(summarize(cpu_samples[kPipelined]).median -
                              summarize(cpu_samples[kComputeOnly]).median);
  if (!cpu.ok()) return cpu.status();
  out.comm_cpu_ms = *std::max_element(cpu->begin(), cpu->end());
  derive(spec, out);
  if (Status status = verify(world, *experiment, out); !status.ok()) return status;
  experiment->describe(out);
  return out;
}

}  // namespace

Result<Measurement> measure(const World& world, const MeasureSpec& spec) {
  // Where memory ran out between two collectives, the others wait in the next one.
  bool told = false;
  auto measurement = base::guarded([&]() -> Result<Measurement> {
    if (world.impl() == nullptr) {
      told = true;
      return Status(StatusCode::kInvalidArgument,
                    "the world was moved from; pass the one that it became");
    }
    auto result = perform(world, spec);
    told = true;
    return result;
  });
  if (!told) return world.refuse(measurement.status());
  return measurement;
}

}  // namespace tandem
