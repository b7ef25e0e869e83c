// SPDX-License-Identifier: Apache-2.0
//
// The measurement behind `tandem bench`. measure() at the end is the place to start reading: it
// prepares one experiment per rank, interleaves the four modes, and turns times into figures.
#include "tandem/measure.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "op/experiment.h"
#include "op/validate.h"
#include "platform/memory.h"
#include "platform/park.h"

namespace tandem {
namespace {

using op::Experiment;
using platform::Clock;

enum Mode : std::size_t { kComputeOnly, kCommOnly, kSequential, kPipelined, kModes };

/// Ranks agree on a moment this far ahead, by when all have left the exchange.
constexpr std::chrono::microseconds kStartDelay{400};
/// Waking takes up to about 100 µs, differently on every rank: the last moments are polled away.
constexpr std::chrono::microseconds kStartPolling{150};

Timing summarize(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  return {(samples[(n - 1) / 2] + samples[n / 2]) / 2, samples.front(), samples.back()};
}

Status perform(Experiment& experiment, Mode mode) {
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

/// Runs one mode once; milliseconds from the common start to the last rank's end.
Result<double> time(const World& world, Experiment& experiment, Mode mode) {
  using Ms = std::chrono::duration<double, std::milli>;
  auto proposals = world.all_gather(Ms((Clock::now() + kStartDelay).time_since_epoch()).count());
  if (!proposals.ok()) return proposals.status();
  const Clock::time_point start(std::chrono::duration_cast<Clock::duration>(
      Ms(*std::max_element(proposals->begin(), proposals->end()))));
  platform::sleep_until(start - kStartPolling);
  while (Clock::now() < start) platform::pause();

  Status status = perform(experiment, mode);
  if (!status.ok()) return status;
  auto all = world.all_gather(Ms(Clock::now() - start).count());
  if (!all.ok()) return all.status();
  return *std::max_element(all->begin(), all->end());
}

Status check_spec(const World& world, const MeasureSpec& spec) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (static_cast<int>(spec.rows.size()) != world.size()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("rows has {} entries for {} ranks; give the rows of every rank",
                        spec.rows.size(), world.size())};
  }
  for (std::int64_t rows : spec.rows) {
    if (Status status = op::check_range("rows", rows, 0, kMost); !status.ok()) return status;
  }
  constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16};
  constexpr DType kS8[] = {DType::s8};
  constexpr DType kOutputs[] = {DType::f16, DType::bf16, DType::f32, DType::s32, DType::s8};
  const bool bytes = spec.activations && *spec.activations != ActivationKind::quantised;
  const std::span<const DType> a_types =
      bytes ? std::span<const DType>(kS8) : std::span<const DType>(kFloats);
  const std::span<const DType> c_types =
      spec.activations ? std::span<const DType>(kOutputs) : std::span<const DType>(kFloats);
  if (spec.options.workspace == Workspace::direct) {
    return {StatusCode::kInvalidArgument,
            "workspace direct cannot be measured against a gather: its A never leaves its place; "
            "use full or staged"};
  }
  return op::first_failure(op::check_range("K", spec.k, 1, kMost),
                           op::check_range("N", spec.n, 1, kMost),
                           op::check_range("iterations", spec.iterations, 1, 1000000),
                           op::check_range("warmup", spec.warmup, 0, 1000000),
                           op::check_matrix("A", {.type = spec.a_type}, a_types),
                           op::check_matrix("C", {.type = spec.c_type}, c_types));
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
  if (!own.ok()) return own.status();
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

}  // namespace

Result<Measurement> measure(const World& world, const MeasureSpec& spec) {
  if (Status status = check_spec(world, spec); !status.ok()) return status;
  const std::unique_ptr<Experiment> experiment = Experiment::make(world, spec);
  if (Status status = experiment->prepare(); !status.ok()) return status;
  // Compute-only reads the gathered matrix: one gather first, so that no mode meets untouched
  // pages.
  if (auto first = time(world, *experiment, kCommOnly); !first.ok()) return first.status();

  std::array<std::vector<double>, kModes> samples;
  const int rounds = spec.warmup + spec.iterations;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t mode = 0; mode < kModes; ++mode) {
      if (round == rounds - 1 && mode == kPipelined) experiment->poison_c();
      auto elapsed = time(world, *experiment, static_cast<Mode>(mode));
      if (!elapsed.ok()) return elapsed.status();
      if (round >= spec.warmup) samples[mode].push_back(*elapsed);
      if (spec.progress && world.rank() == 0) {
        const auto done = static_cast<double>(mode + 1) / static_cast<double>(std::size_t{kModes});
        spec.progress((round + done) / rounds);
      }
    }
  }

  Measurement out;
  out.compute_only_ms = summarize(samples[kComputeOnly]);
  out.comm_only_ms = summarize(samples[kCommOnly]);
  out.sequential_ms = summarize(samples[kSequential]);
  out.pipelined_ms = summarize(samples[kPipelined]);
  derive(spec, out);
  if (Status status = verify(world, *experiment, out); !status.ok()) return status;
  experiment->describe(out);
  return out;
}

}  // namespace tandem
