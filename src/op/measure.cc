// SPDX-License-Identifier: Apache-2.0
//
// The measurement behind `tandem bench`. measure() at the end is the place to start reading: it
// prepares one Experiment per rank, interleaves the four modes, and turns times into figures.
#include "tandem/measure.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "op/allgather_gemm_impl.h"
#include "op/validate.h"
#include "platform/memory.h"
#include "platform/page_buffer.h"
#include "platform/park.h"
#include "tandem/reference.h"

namespace tandem {
namespace {

using platform::Clock;

enum Mode : std::size_t { kComputeOnly, kCommOnly, kSequential, kPipelined, kModes };

/// Whole results are verified up to this many operations (about a second); of larger ones a sample
/// of rows.
constexpr double kVerifyOperations = 2e10;
/// Ranks agree on a moment this far ahead, by when all have left the barrier.
constexpr std::chrono::microseconds kStartDelay{400};
constexpr std::chrono::microseconds kStartPolling{150};

Timing summarize(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  return {(samples[(n - 1) / 2] + samples[n / 2]) / 2, samples.front(), samples.back()};
}

/// One rank's matrices and operator.
class Experiment {
 public:
  Experiment(const World& world, const MeasureSpec& spec) : world_(world), spec_(spec) {}

  Status prepare();
  /// Runs one mode once; milliseconds from the common start to the last rank's end.
  Result<double> time(Mode mode);
  Status verify(Measurement& out);
  void describe(Measurement& out) const;
  void poison_c() { std::memset(c_memory_.data(), 0xff, c_memory_.size()); }

 private:
  Status perform(Mode mode);
  [[nodiscard]] Matrix c() const { return dense(c_memory_.data(), spec_.c_type, m_, spec_.n); }
  [[nodiscard]] Matrix gathered() const {
    return dense(gathered_memory_.data(), spec_.a_type, m_, spec_.k);
  }
  [[nodiscard]] Matrix b() const {
    return spec_.b_layout == BLayout::kn ? dense(b_memory_.data(), spec_.a_type, spec_.k, spec_.n)
                                         : dense(b_memory_.data(), spec_.a_type, spec_.n, spec_.k);
  }
  [[nodiscard]] std::uint64_t seed_b() const { return spec_.seed + 1; }

  const World& world_;
  const MeasureSpec& spec_;
  std::int64_t m_ = 0;
  Matrix a_;
  mutable platform::PageBuffer a_memory_, b_memory_, c_memory_, gathered_memory_;
  std::optional<PackedWeights> weights_;
  std::optional<AllGatherGemm> op_;
  double peak_rss_mib_ = 0;
};

Status Experiment::prepare() {
  const std::size_t element = size_of(spec_.a_type);
  const auto make = [](platform::PageBuffer& buffer, std::int64_t elements, std::size_t size) {
    auto made = platform::PageBuffer::create(static_cast<std::size_t>(elements) * size, true);
    if (made.ok()) buffer = std::move(made).value();
    return made.status();
  };
  m_ = std::accumulate(spec_.rows.begin(), spec_.rows.end(), std::int64_t{0});
  const std::int64_t own = spec_.rows[static_cast<std::size_t>(world_.rank())];
  const std::int64_t row0 =
      std::accumulate(spec_.rows.begin(), spec_.rows.begin() + world_.rank(), std::int64_t{0});
  Status made = op::first_failure(make(a_memory_, own * spec_.k, element),
                                  make(b_memory_, spec_.k * spec_.n, element),
                                  make(c_memory_, m_ * spec_.n, size_of(spec_.c_type)),
                                  make(gathered_memory_, m_ * spec_.k, element));
  if (!made.ok()) return made;
  a_ = dense(a_memory_.data(), spec_.a_type, own, spec_.k);
  fill_random(a_, spec_.seed, row0);
  fill_random(b(), seed_b());

  auto weights = PackedWeights::pack(
      b(),
      {.layout = spec_.b_layout, .kernel = spec_.kernel, .threads = spec_.options.compute_threads});
  if (!weights.ok()) return weights.status();
  weights_ = std::move(weights).value();
  AllGatherGemmOptions options = spec_.options;
  if (options.max_rows == 0) {
    options.max_rows =
        std::max<std::int64_t>(1, *std::max_element(spec_.rows.begin(), spec_.rows.end()));
  }
  auto op = AllGatherGemm::create(world_, *weights_, options);
  if (!op.ok()) return op.status();
  op_.emplace(std::move(op).value());
  return {};
}

Status Experiment::perform(Mode mode) {
  op::AllGatherGemmImpl& impl = op_->impl();
  const AllGatherGemmCall gather{.a = a_, .c = {}, .rows = spec_.rows, .gathered_a = gathered()};
  switch (mode) {
    case kComputeOnly:
      return impl.core().pipeline().multiply(gathered(), nullptr, spec_.rows, {.c = c()});
    case kCommOnly:
      return impl.run(gather, op::Phase::gather);
    case kSequential: {
      Status status = impl.run(gather, op::Phase::gather);
      return status.ok()
                 ? impl.core().pipeline().multiply(gathered(), nullptr, spec_.rows, {.c = c()})
                 : status;
    }
    default:
      return op_->run({.a = a_, .c = c(), .rows = spec_.rows});
  }
}

Result<double> Experiment::time(Mode mode) {
  using Ms = std::chrono::duration<double, std::milli>;
  const auto since_epoch = [](Clock::time_point t) { return Ms(t.time_since_epoch()).count(); };
  auto proposals = world_.all_gather(since_epoch(Clock::now() + kStartDelay));
  if (!proposals.ok()) return proposals.status();
  const Clock::time_point start(std::chrono::duration_cast<Clock::duration>(
      Ms(*std::max_element(proposals->begin(), proposals->end()))));
  // Waking takes up to about 100 µs, differently on every rank: that much is polled away.
  platform::sleep_until(start - kStartPolling);
  while (Clock::now() < start) platform::pause();

  Status status = perform(mode);
  if (!status.ok()) return status;
  const double elapsed = Ms(Clock::now() - start).count();
  auto all = world_.all_gather(elapsed);
  if (!all.ok()) return all.status();
  return *std::max_element(all->begin(), all->end());
}

Status Experiment::verify(Measurement& out) {
  peak_rss_mib_ = platform::peak_rss_mib();
  const double per_row = 2.0 * static_cast<double>(spec_.k) * static_cast<double>(spec_.n);
  const auto affordable = static_cast<std::int64_t>(std::max(1.0, kVerifyOperations / per_row));
  const std::int64_t rows = std::min(m_, affordable);

  // The rows of A and C that are compared: all, or evenly spread ones with the last among them.
  const std::size_t a_row = static_cast<std::size_t>(spec_.k) * size_of(spec_.a_type);
  const std::size_t c_row = static_cast<std::size_t>(spec_.n) * size_of(spec_.c_type);
  std::vector<std::byte> a(static_cast<std::size_t>(rows) * a_row);
  std::vector<std::byte> got(static_cast<std::size_t>(rows) * c_row), expected(got.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t row = rows == m_ ? i : (i + 1) * m_ / rows - 1;
    Matrix a_line = dense(a.data() + static_cast<std::size_t>(i) * a_row, spec_.a_type, 1, spec_.k);
    fill_random(a_line, spec_.seed, row);
    std::memcpy(got.data() + static_cast<std::size_t>(i) * c_row, c().row(row), c_row);
  }
  Status status = reference_gemm(dense(a.data(), spec_.a_type, rows, spec_.k), b(), spec_.b_layout,
                                 dense(expected.data(), spec_.c_type, rows, spec_.n),
                                 spec_.options.compute_threads);
  if (!status.ok()) return status;
  auto comparison = compare(dense(got.data(), spec_.c_type, rows, spec_.n),
                            dense(expected.data(), spec_.c_type, rows, spec_.n));
  if (!comparison.ok()) return comparison.status();
  auto different = world_.all_gather(static_cast<double>(comparison->different));
  if (!different.ok()) return different.status();
  out.verified = std::all_of(different->begin(), different->end(), [](double d) { return d == 0; });
  out.verified_rows = rows;
  if (!comparison->equal()) {
    out.mismatch = fmt::format("rank {}: {}", world_.rank(), comparison->text());
  } else if (!out.verified) {
    out.mismatch = "another rank's result differs from the reference";
  }
  return {};
}

void Experiment::describe(Measurement& out) const {
  out.kernel = weights_->kernel();
  out.chunks_per_source = op_->chunks(*std::max_element(spec_.rows.begin(), spec_.rows.end()));
  out.tile_m = op_->tile_m();
  out.tile_k = op_->tile_k();
  out.window_bytes = op_->window_bytes();
  out.peak_rss_mib = peak_rss_mib_;
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
  constexpr DType kA[] = {DType::f16, DType::bf16, DType::f32};
  constexpr DType kC[] = {DType::f32, DType::f16, DType::bf16};
  return op::first_failure(op::check_range("K", spec.k, 1, kMost),
                           op::check_range("N", spec.n, 1, kMost),
                           op::check_range("iterations", spec.iterations, 1, 1000000),
                           op::check_range("warmup", spec.warmup, 0, 1000000),
                           op::check_matrix("A", {.type = spec.a_type}, kA),
                           op::check_matrix("C", {.type = spec.c_type}, kC));
}

void derive(const MeasureSpec& spec, Measurement& out) {
  const double compute = out.compute_only_ms.median, comm = out.comm_only_ms.median;
  const double pipelined = out.pipelined_ms.median;
  const double m =
      static_cast<double>(std::accumulate(spec.rows.begin(), spec.rows.end(), std::int64_t{0}));
  out.speedup = out.sequential_ms.median / pipelined;
  out.overlap_efficiency = (comm + compute - pipelined) / std::min(comm, compute);
  out.pipelined_over_max = pipelined / std::max(comm, compute);
  out.exposed_comm_ms = pipelined - compute;
  out.gflops_per_rank =
      2 * m * static_cast<double>(spec.k) * static_cast<double>(spec.n) / (pipelined * 1e6);
}

}  // namespace

Result<Measurement> measure(const World& world, const MeasureSpec& spec) {
  if (Status status = check_spec(world, spec); !status.ok()) return status;
  Experiment experiment(world, spec);
  if (Status status = experiment.prepare(); !status.ok()) return status;
  // Compute-only reads the gathered matrix: one gather first, so that no mode meets untouched
  // pages.
  if (auto first = experiment.time(kCommOnly); !first.ok()) return first.status();

  std::array<std::vector<double>, kModes> samples;
  const int rounds = spec.warmup + spec.iterations;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t mode = 0; mode < kModes; ++mode) {
      if (round == rounds - 1 && mode == kPipelined) experiment.poison_c();
      auto elapsed = experiment.time(static_cast<Mode>(mode));
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
  if (Status status = experiment.verify(out); !status.ok()) return status;
  experiment.describe(out);
  return out;
}

}  // namespace tandem
