// SPDX-License-Identifier: Apache-2.0
//
// Packing of weights against memcpy of as many bytes: into memory that is already there, and as a
// user calls it (PackedWeights, which also gets the memory); and what the packed form takes.
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "bench/peers/session.h"
#include "block/multiply.h"
#include "platform/topology.h"
#include "tandem/weights.h"
#include "tile/kernel.h"

namespace tandem::bench {
namespace {

constexpr Shape kShape{.m = 1, .k = 4096, .n = 4096, .full_m = 1};

/// B as K × N, or the same memory read as N rows of K: packing does not look at values.
ConstMatrix view(const ConstMatrix& b, BLayout layout) {
  return layout == BLayout::kn ? b : dense(b.data, b.type, b.cols, b.rows);
}

void measure_type(Session& session, const tile::Kernel& kernel, ConstMatrix b, BLayout layout) {
  const double bytes = static_cast<double>(b.rows * b.cols) * static_cast<double>(size_of(b.type));
  block::PackedB packed{.kernel = &kernel, .k = b.rows, .n = b.cols, .data = nullptr};
  Buffer memory, copy;
  for (Buffer* buffer : {&memory, &copy}) {
    if (Status made = buffer->ensure(packed.bytes()); !made.ok()) {
      return session.fail(made.message());
    }
  }
  packed.data = memory.data();
  const ConstMatrix from = view(b, layout);

  Turns turns(session.turn_settings(1, 0));
  const int warm =
      turns.add([&] { block::pack_b(from, layout, 0, packed.panels(), packed); }, bytes);
  const int memcpy_id =
      turns.add([&] { std::memcpy(copy.data(), b.data, static_cast<std::size_t>(bytes)); }, bytes);
  int whole = -1;
  const PackOptions pack_options{
      .layout = layout, .kernel = std::string(kernel.target), .threads = 1};
  if (PackedWeights::pack(from, pack_options).ok()) {
    whole = turns.add(
        [&] {
          auto made = PackedWeights::pack(from, pack_options);
          if (!made.ok()) session.fail(made.status().message());
        },
        bytes);
  }
  turns.run();

  const double size_ratio = static_cast<double>(packed.bytes()) / bytes;
  session.report().line(fmt::format(
      "{:<5} {:<3} {:>9.2f} {:>9.2f} {:>10.3f} {:>17} {:>10.4f}", tandem::name(b.type),
      tandem::name(layout), turns.rate(memcpy_id) * 1e-9, turns.rate(warm) * 1e-9,
      turns.ratio(warm, memcpy_id),
      whole < 0 ? "-" : fmt::format("{:.3f}", turns.ratio(whole, memcpy_id)), size_ratio));
  session.report().json()["packing"].push_back(
      {{"type", tandem::name(b.type)},
       {"layout", tandem::name(layout)},
       {"k", b.rows},
       {"n", b.cols},
       {"kernel", kernel.target},
       {"memcpy_gb_per_s", turns.rate(memcpy_id) * 1e-9},
       {"pack_gb_per_s", turns.rate(warm) * 1e-9},
       {"ratio_to_memcpy", turns.ratio(warm, memcpy_id)},
       {"packed_weights_ratio_to_memcpy",
        whole < 0 ? nlohmann::json() : nlohmann::json(turns.ratio(whole, memcpy_id))},
       {"size_ratio", size_ratio}});
}

}  // namespace

void measure_packing(Session& session) {
  const Options& options = session.options();
  session.report().heading(fmt::format("Packing B of {} x {}, one thread", kShape.k, kShape.n));
  session.report().line(fmt::format("{:<5} {:<3} {:>9} {:>9} {:>10} {:>17} {:>10}", "type", "B",
                                    "memcpy", "pack GB/s", "of memcpy", "with fresh memory",
                                    "size ratio"));
  Problem problem;
  if (Status made = problem.make(kShape, options.types); !made.ok()) {
    return session.fail(made.message());
  }
  for (const DType type : options.types) {
    auto kernel = tile::select_kernel(type, options.kernel, platform::cpu_features());
    // Said in the list of peers.
    if (!kernel.ok() || ((*kernel)->target == "scalar" && options.kernel != "scalar")) continue;
    for (const BLayout layout : {BLayout::kn, BLayout::nk}) {
      measure_type(session, **kernel, problem.operands(type).b, layout);
    }
  }
}

}  // namespace tandem::bench
