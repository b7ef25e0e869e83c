// SPDX-License-Identifier: Apache-2.0
//
// gathered_peers: Tandem's operators against what one would write today, MPI_Allgatherv, then the
// multiply of another library with its own packed weights, then (s8) a loop that adds the bias and
// scales. Ranks are MPI's, one thread each; both take turns in one run, and both results must be
// equal (s8) or close (floats, which the library takes as f32). Start reading at compare().
//
//   mpirun -n 2 gathered_peers --type s8 --shapes bench/peers/shapes_139.csv
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <mpi.h>

#include "base/element.h"
#include "bench/peers/options.h"
#include "bench/peers/peer.h"
#include "bench/peers/turns.h"
#include "tandem/mpi.h"
#include "tandem/tandem.h"

namespace tandem::bench {
namespace {

/// A turn repeats its work until it takes this long.
constexpr double kTurnSeconds = 0.003;

struct Settings {
  std::vector<Shape> shapes;
  DType type = DType::s8;
  int rounds = 5;
  double time_budget = 0;
  std::string csv;
};

double largest(double value) {
  double most = 0;
  MPI_Allreduce(&value, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return most;
}

/// Ends the job: one rank that cannot go on would leave the others waiting.
void require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "gathered_peers: %s\n", std::string(status.message()).c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

template <class T>
T take(Result<T> result) {
  require(result.ok() ? Status() : result.status());
  return std::move(result).value();
}

Buffer make_buffer(std::size_t bytes) {
  Buffer buffer;
  require(buffer.ensure(std::max<std::size_t>(bytes, 1)));
  return buffer;
}

/// Everything of one shape that both contestants use.
struct Contest {
  Shape shape;
  DType type;
  std::vector<std::int64_t> rows;  ///< of every rank
  Buffer a_memory, b_memory;
  Matrix a, b;
  std::vector<std::int32_t> bias;
  std::vector<float> scale;

  Contest(const Shape& s, DType t, int rank, int size)
      : shape(s),
        type(t),
        a_memory(make_buffer(static_cast<std::size_t>((s.m / size + 1) * s.k) * size_of(t))),
        b_memory(make_buffer(static_cast<std::size_t>(s.k * s.n) * size_of(t))) {
    for (int r = 0; r < size; ++r) rows.push_back(s.m / size + (r < s.m % size ? 1 : 0));
    a = dense(a_memory.data(), t, rows[static_cast<std::size_t>(rank)], s.k);
    b = dense(b_memory.data(), t, s.k, s.n);
    fill_random(a, static_cast<std::uint64_t>(rank) + 1);
    fill_random(b, 99);
    for (std::int64_t j = 0; j < s.n; ++j) {
      bias.push_back(static_cast<std::int32_t>(j * 7919 % 131072 - 65536));
      scale.push_back(1e-4F * static_cast<float>(j % 13 + 1));
    }
  }
};

/// MPI_Allgatherv, multiply, loop.
class Sequence {
 public:
  Sequence(const Contest& contest, Peer& peer) : contest_(contest), peer_(peer) {
    const Shape& s = contest.shape;
    type_ = peer.type();
    const std::size_t row_bytes = static_cast<std::size_t>(s.k) * size_of(type_);
    mine_ = make_buffer(static_cast<std::size_t>(contest.a.rows) * row_bytes);
    gathered_ = make_buffer(static_cast<std::size_t>(s.m) * row_bytes);
    b_ = make_buffer(static_cast<std::size_t>(s.k * s.n) * size_of(type_));
    widen(contest.a, mine_);
    widen(contest.b, b_);
    MPI_Type_contiguous(static_cast<int>(row_bytes), MPI_BYTE, &row_);
    MPI_Type_commit(&row_);
    int at = 0;
    for (const std::int64_t rows : contest.rows) {
      counts_.push_back(static_cast<int>(rows));
      offsets_.push_back(at);
      at += static_cast<int>(rows);
    }
    if (type_ == DType::s8) c_ = make_buffer(static_cast<std::size_t>(s.m * s.n) * sizeof(float));
    require(peer.prepare(
        {dense(gathered_.data(), type_, s.m, s.k), dense(b_.data(), type_, s.k, s.n)}, 1));
  }
  ~Sequence() { MPI_Type_free(&row_); }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  void run() {
    gather();
    multiply();
  }
  void gather() {
    MPI_Allgatherv(mine_.data(), static_cast<int>(contest_.a.rows), row_, gathered_.data(),
                   counts_.data(), offsets_.data(), row_, MPI_COMM_WORLD);
  }
  void multiply() {
    require(peer_.run());
    if (type_ != DType::s8) return;
    const auto n = static_cast<std::size_t>(contest_.shape.n);
    const auto* sums = static_cast<const std::int32_t*>(peer_.result().data);
    auto* c = reinterpret_cast<float*>(c_.data());
    for (std::int64_t i = 0; i < contest_.shape.m; ++i, sums += n, c += n) {
      for (std::size_t j = 0; j < n; ++j) {
        c[j] = static_cast<float>(sums[j] + contest_.bias[j]) * contest_.scale[j];
      }
    }
  }
  [[nodiscard]] const float* result() {
    return static_cast<const float*>(type_ == DType::s8 ? c_.data() : peer_.result().data);
  }

 private:
  /// Into the type that the library multiplies: the same, or f32.
  void widen(const Matrix& from, Buffer& to) const {
    const auto elements = static_cast<std::size_t>(from.rows * from.cols);
    if (from.type == type_) {
      std::memcpy(to.data(), from.data, elements * size_of(type_));
      return;
    }
    auto* out = reinterpret_cast<float*>(to.data());
    for (std::size_t i = 0; i < elements; ++i) {
      out[i] = base::load_element(
          from.type, static_cast<const std::byte*>(from.data) + i * size_of(from.type));
    }
  }

  const Contest& contest_;
  Peer& peer_;
  DType type_ = DType::s8;
  MPI_Datatype row_ = MPI_DATATYPE_NULL;
  std::vector<int> counts_, offsets_;
  Buffer mine_, gathered_, b_, c_;
};

/// The fused operator with f32 output.
class Fused {
 public:
  Fused(const Contest& contest, const World& world)
      : contest_(contest),
        c_(make_buffer(static_cast<std::size_t>(contest.shape.m * contest.shape.n) *
                       sizeof(float))) {
    PackOptions pack;
    if (contest.type == DType::s8) pack.bias = contest.bias;
    PackedWeights weights = take(PackedWeights::pack(contest.b, pack));
    StreamOptions options;
    options.max_rows = *std::max_element(contest.rows.begin(), contest.rows.end());
    if (contest.type == DType::s8) {
      s8_ = take(AllGatherGemmDequant::create(world, std::move(weights), {.scale = contest.scale},
                                              options));
    } else {
      floats_ = take(AllGatherGemm::create(world, std::move(weights), options));
    }
  }
  void run() {
    const Matrix c = dense(c_.data(), DType::f32, contest_.shape.m, contest_.shape.n);
    require(s8_ ? s8_->run({.a = contest_.a, .c = c, .rows = contest_.rows})
                : floats_->run({.a = contest_.a, .c = c, .rows = contest_.rows}));
  }
  [[nodiscard]] const float* result() { return reinterpret_cast<const float*>(c_.data()); }

 private:
  const Contest& contest_;
  Buffer c_;
  std::optional<AllGatherGemmDequant> s8_;
  std::optional<AllGatherGemm> floats_;
};

struct Outcome {
  double fused_ms = 0, sequence_ms = 0, ratio = 0;
  double gather_ms = 0;  ///< of the sequence, its first part alone
  double wrong = 0;      ///< share of elements of the sequence that differ from Tandem's
};

/// Share of elements that differ: at all for s8, by more than rounding for floats.
double differing(const Contest& contest, const float* mine, const float* other) {
  const std::int64_t count = contest.shape.m * contest.shape.n;
  const float allowed =
      contest.type == DType::s8 ? 0 : static_cast<float>(contest.shape.k) * 0x1p-22F;
  std::int64_t bad = 0;
  for (std::int64_t i = 0; i < count; ++i) bad += std::abs(mine[i] - other[i]) > allowed ? 1 : 0;
  return static_cast<double>(bad) / static_cast<double>(count);
}

Outcome compare(const Shape& shape, const Settings& settings, const World& world, Peer& peer,
                double limit_s) {
  const Contest contest(shape, settings.type, world.rank(), world.size());
  Fused fused(contest, world);
  Sequence sequence(contest, peer);
  const auto timed = [&](auto&& work, int repeats) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < repeats; ++i) work();
    return largest(MPI_Wtime() - start) / repeats;
  };
  const auto repeats_of = [&](auto&& work) {
    timed(work, 1);
    return std::clamp(static_cast<int>(kTurnSeconds / timed(work, 1)), 1, 10'000);
  };
  const auto run_fused = [&] { fused.run(); };
  const auto run_sequence = [&] { sequence.run(); };
  Outcome outcome;
  const int fused_repeats = repeats_of(run_fused), sequence_repeats = repeats_of(run_sequence);
  outcome.wrong = largest(differing(contest, fused.result(), sequence.result()));
  std::vector<double> fused_s, sequence_s, gather_s, ratios;
  const double start = MPI_Wtime();
  for (int round = 0; round < settings.rounds; ++round) {
    if (round >= 3 && limit_s > 0 && largest(MPI_Wtime() - start) > limit_s) break;
    fused_s.push_back(timed(run_fused, fused_repeats));
    sequence_s.push_back(timed(run_sequence, sequence_repeats));
    gather_s.push_back(timed([&] { sequence.gather(); }, sequence_repeats));
    ratios.push_back(sequence_s.back() / fused_s.back());
  }
  outcome.fused_ms = 1e3 * median(fused_s);
  outcome.sequence_ms = 1e3 * median(sequence_s);
  outcome.gather_ms = 1e3 * median(gather_s);
  outcome.ratio = median(ratios);
  return outcome;
}

int parse_settings(int argc, char** argv, Settings& settings) {
  CLI::App app(
      "Tandem's fused operators against MPI_Allgatherv, another library's multiply (oneDNN for "
      "s8,\n"
      "OpenBLAS on the same numbers in f32 for floats) and a dequantisation loop. Start it with\n"
      "mpirun; every rank has one thread. Ratios are medians of ratios within rounds.");
  std::vector<std::string> shapes;
  std::string file, type = "s8";
  app.add_option("--shape", shapes, "A shape MxKxN, M being the rows of all ranks; several times");
  app.add_option("--shapes", file, "A file of shapes: CSV with the header M,K,N");
  app.add_option("--type", type, "Elements of A and B: s8, f16, bf16 or f32")
      ->check(CLI::IsMember({"s8", "f16", "bf16", "f32"}))
      ->capture_default_str();
  app.add_option("--rounds", settings.rounds, "Turns of each, at least 3")
      ->check(CLI::Range(3, 1000))
      ->capture_default_str();
  app.add_option("--time-budget", settings.time_budget,
                 "Seconds for all shapes together; shapes then get fewer rounds, at least 3")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--csv", settings.csv, "Write all figures to this file");
  try {
    app.parse(argc, argv);
    settings.type = *parse_dtype(type);
    if (!file.empty()) settings.shapes = read_shapes(file);
    for (const std::string& text : shapes) {
      const auto shape = parse_shape(text);
      if (!shape) throw CLI::ValidationError("--shape", fmt::format("'{}' is not MxKxN", text));
      settings.shapes.push_back(*shape);
    }
    if (settings.shapes.empty()) settings.shapes.push_back({2048, 2048, 1024, 2048});
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  return -1;
}

std::unique_ptr<Peer> rival_for(DType type) {
  PeerList list;
  if (type == DType::s8) {
    add_dnnl({.types = {DType::s8}, .libraries = {}}, list);
  } else {
    add_cblas({.types = {DType::f32}, .libraries = {}}, list);
  }
  if (list.peers.empty()) {
    require({StatusCode::kUnsupported,
             type == DType::s8 ? "no oneDNN: install libdnnl-dev and configure again"
                               : "no OpenBLAS: install libopenblas-pthread-dev, configure again"});
  }
  return std::move(list.peers.front());
}

void measure(const Settings& settings) {
  const World world = take(mpi::make_world(MPI_COMM_WORLD));
  const bool speaks = world.rank() == 0;
  const std::unique_ptr<Peer> peer = rival_for(settings.type);
  if (speaks) {
    fmt::print("{} ranks, one thread each; {}\nTandem against MPI_Allgatherv + {}{}\n",
               world.size(), mpi::describe(), peer->detail(),
               settings.type == DType::s8 ? " + loop" : "");
    fmt::print("{:<24} {:>10} {:>12} {:>10} {:>8}  {}\n", "M x K x N", "fused ms", "sequence ms",
               "gather ms", "ratio", "sequence differs in");
  }
  std::ofstream csv;
  if (speaks && !settings.csv.empty()) {
    csv.open(settings.csv);
    csv << "m,k,n,fused_ms,sequence_ms,gather_ms,ratio,share_differing\n";
  }
  std::vector<double> ratios;
  std::vector<std::string> slower;
  const double each = settings.time_budget / static_cast<double>(settings.shapes.size());
  for (const Shape& shape : settings.shapes) {
    const Outcome o = compare(shape, settings, world, *peer, each);
    ratios.push_back(o.ratio);
    const std::string text = shape.text();
    if (o.ratio < 0.97) slower.push_back(fmt::format("{} {:.3f}", text, o.ratio));
    if (!speaks) continue;
    fmt::print("{:<24} {:>10.4f} {:>12.4f} {:>10.4f} {:>8.3f}  {}\n", text, o.fused_ms,
               o.sequence_ms, o.gather_ms, o.ratio,
               o.wrong == 0 ? "nothing" : fmt::format("{:.1f}%", 100 * o.wrong));
    std::fflush(stdout);
    if (csv.is_open()) {
      csv << fmt::format("{},{},{},{:.5f},{:.5f},{:.5f},{:.4f},{:.4f}\n", shape.m, shape.k, shape.n,
                         o.fused_ms, o.sequence_ms, o.gather_ms, o.ratio, o.wrong)
          << std::flush;
    }
  }
  if (!speaks) return;
  fmt::print("ratio: median {:.3f}, lowest {:.3f}, below 0.97 at {} of {} shapes\n", median(ratios),
             *std::min_element(ratios.begin(), ratios.end()), slower.size(), ratios.size());
  for (const std::string& text : slower) fmt::print("    {}\n", text);
}

int run(int argc, char** argv) {
  Settings settings;
  const int code = parse_settings(argc, argv, settings);
  if (code < 0) measure(settings);
  return std::max(code, 0);
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  int granted = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
  const int code = tandem::bench::run(argc, argv);
  MPI_Finalize();
  return code;
}
