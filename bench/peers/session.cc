// SPDX-License-Identifier: Apache-2.0
//
// What the sections share. Start reading at Session::introduce().
#include "bench/peers/session.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>

#include <fmt/format.h>

#include "bench/peers/bandwidth.h"
#include "platform/topology.h"
#include "tile/kernel.h"

namespace tandem::bench {
namespace {

/// One to two milliseconds: long against starting it on several threads.
constexpr std::int64_t kCeilingSteps = 400'000;

/// OpenBLAS's threads poll up to 2^26 cycles after their work (its THREAD_TIMEOUT), some 26 ms;
/// those of an OpenMP runtime less.
constexpr double kSettleSeconds = 0.030;

/// Below this share of a core the medians of a few rounds are no longer worth quoting.
constexpr double kQuiet = 0.97;

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

std::string mebibytes(std::int64_t bytes) {
  return bytes < (1 << 20) ? fmt::format("{} KiB", bytes >> 10)
                           : fmt::format("{} MiB", bytes >> 20);
}

double seconds(clockid_t clock) {
  std::timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// The share of a core that this thread gets: below 1 where others compute too.
double core_share(Isa isa) {
  constexpr int kRepeats = 100;
  const double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
  for (int i = 0; i < kRepeats; ++i) run_fma_chains(isa, kCeilingSteps);
  return (seconds(CLOCK_THREAD_CPUTIME_ID) - cpu) / (seconds(CLOCK_MONOTONIC) - wall);
}

}  // namespace

Session::Session(const Options& options) : options_(options), report_(options.json != "-") {
  const auto kernel = tile::select_kernel(DType::f32, options.kernel, platform::cpu_features());
  target_ = kernel.ok() ? std::string((*kernel)->target) : options.kernel;
  isa_ = isa_of(target_);
  s8_step_ = choose_s8_step(platform::cpu_features(), options.kernel);
  const auto bf16 = tile::select_kernel(DType::bf16, options.kernel, platform::cpu_features());
  bf16_pairs_ = bf16.ok() && multiplies_pairs(**bf16);
}

void Session::fail(const std::string& why) {
  failed_ = true;
  report_.line("FAILED: " + why);
  report_.json()["failures"].push_back(why);
}

PeerOptions Session::peer_options() const {
  return {.types = options_.types,
          .kernel = options_.kernel,
          .avx2_only = options_.kernel != "auto" && isa_ == Isa::avx2,
          .libraries = options_.libraries};
}

PeerList Session::peers() const {
  const PeerOptions options = peer_options();
  PeerList list;
  add_tandem(options, list);
  add_cblas(options, list);
  add_dnnl(options, list);
  const auto unwanted = [&](const std::string& name) {
    return !options_.peers.empty() &&
           std::ranges::find(options_.peers, name) == options_.peers.end();
  };
  std::erase_if(list.peers, [&](const auto& peer) { return unwanted(peer->name()); });
  std::erase_if(list.absent, [&](const Absence& absence) {
    return unwanted(absence.peer.substr(0, absence.peer.find(' ')));
  });
  return list;
}

TurnSettings Session::turn_settings(int threads, double budget_s) const {
  return {.rounds = options_.rounds,
          .min_sample_s = options_.min_sample_ms * 1e-3,
          .budget_s = budget_s,
          .cpu_clock = options_.cpu_clock && threads == 1,
          .settle_s = threads > 1 ? kSettleSeconds : 0};
}

platform::Team& Session::team(int threads) {
  if (team_ == nullptr || team_->size() < threads - 1) {
    auto made = platform::Team::create(threads - 1, "ceiling", {std::chrono::microseconds(50)});
    if (!made.ok()) {
      fail(made.status().message());
      std::exit(1);
    }
    team_ = std::move(made).value();
  }
  return *team_;
}

CeilingIds Session::add_ceilings(Turns& turns, int threads) {
  const auto add = [&](const std::function<double()>& loop) {
    return turns.add(
        [this, threads, loop] {
          platform::Team& others = team(threads);
          others.start(threads - 1, [&](int) {
            loop();
            return Status();
          });
          loop();
          (void)others.join();
        },
        loop() * threads);
  };
  CeilingIds ids;
  ids.fma = add([isa = isa_] { return run_fma_chains(isa, kCeilingSteps); });
  const auto wanted = [&](DType type) {
    return std::ranges::find(options_.types, type) != options_.types.end();
  };
  if (bf16_pairs_ && wanted(DType::bf16)) {
    ids.bf16 = add([] { return run_bf16_chains(kCeilingSteps); });
  }
  if (s8_step_ != S8Step::none && wanted(DType::s8)) {
    ids.s8 = add([step = s8_step_] { return run_s8_chains(step, kCeilingSteps); });
  }
  return ids;
}

void Session::introduce() {
  const platform::Topology& machine = platform::topology();
  report_.line(fmt::format("machine   {}, {} cores, L1d {}, L2 {}, L3 {}", machine.cpu,
                           machine.cores.size(), mebibytes(machine.caches.l1d),
                           mebibytes(machine.caches.l2), mebibytes(machine.caches.l3)));
  report_.line(fmt::format("compiler  {}", compiler()));
  report_.json()["machine"] = {{"cpu", machine.cpu},
                               {"cores", machine.cores.size()},
                               {"l1d_bytes", machine.caches.l1d},
                               {"l2_bytes", machine.caches.l2},
                               {"l3_bytes", machine.caches.l3},
                               {"compiler", compiler()},
                               {"clock", options_.cpu_clock ? "cpu" : "wall"}};

  const PeerList list = peers();
  for (const auto& peer : list.peers) {
    const auto type = std::string(tandem::name(peer->type()));
    report_.line(fmt::format("{:<9} {:<5} {}", peer->name(), type, peer->detail()));
    report_.json()["peers"].push_back(
        {{"peer", peer->name()}, {"type", type}, {"detail", peer->detail()}});
  }
  for (const Absence& absence : list.absent) {
    report_.line(fmt::format("absent    {}: {}", absence.peer, absence.reason));
    report_.json()["absent"].push_back({{"peer", absence.peer}, {"reason", absence.reason}});
  }

  Bandwidth bandwidth;
  if (Status made = bandwidth.prepare(); !made.ok()) return fail(made.message());
  const double share = core_share(isa_);
  report_.line(fmt::format("quiet     this thread got {:.0f}% of a core{}", 100 * share,
                           share < kQuiet ? "; others compute too: ratios scatter" : ""));
  report_.json()["machine"]["core_share"] = share;

  const int threads = options_.threads;
  Turns turns(turn_settings(threads, 0));
  const CeilingIds ids = add_ceilings(turns, threads);
  const int read = turns.add([&] { bandwidth.read(threads); }, bandwidth.read(threads));
  const int copy = turns.add([&] { bandwidth.copy(); }, bandwidth.copy());
  turns.run();
  const auto giga = [&](int id) { return id < 0 ? 0.0 : turns.rate(id) * 1e-9; };
  const std::string pairs =
      ids.bf16 < 0 ? "" : fmt::format(" bf16 (vdpbf16ps) {:.1f} GFLOP/s,", giga(ids.bf16));
  report_.line(fmt::format("ceilings  f32 FMA ({}) {:.1f} GFLOP/s,{} s8 ({}) {:.1f} GOP/s, {}",
                           target_, giga(ids.fma), pairs, name(s8_step_), giga(ids.s8),
                           threads == 1 ? "1 thread" : fmt::format("{} threads", threads)));
  report_.line(
      fmt::format("memory    read {:.1f} GB/s, memcpy {:.1f} GB/s (bytes copied, one thread)",
                  giga(read), giga(copy)));
  report_.json()["ceilings"] = {{"threads", threads},          {"fma_target", target_},
                                {"fma_gflops", giga(ids.fma)}, {"bf16_gflops", giga(ids.bf16)},
                                {"s8_step", name(s8_step_)},   {"s8_gops", giga(ids.s8)},
                                {"read_gb_per_s", giga(read)}, {"memcpy_gb_per_s", giga(copy)}};
}

}  // namespace tandem::bench
