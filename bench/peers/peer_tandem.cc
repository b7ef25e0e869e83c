// SPDX-License-Identifier: Apache-2.0
//
// Tandem as a peer: the pipeline of an operator whose world is this process alone, multiplying an A
// that is all there: weights packed once, the engine, scratch memory and threads of the real thing.
// Driven from the kernel table, so an element type appears here as soon as a kernel for it does.
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "bench/peers/peer.h"
#include "block/multiply.h"
#include "op/pipeline.h"
#include "platform/topology.h"
#include "tandem/weights.h"
#include "tandem/world.h"
#include "tile/kernel.h"

namespace tandem::bench {
namespace {

class TandemPeer final : public Peer {
 public:
  explicit TandemPeer(const tile::Kernel* kernel) : kernel_(kernel) {}

  std::string name() const override { return "tandem"; }
  std::string detail() const override {
    const auto blocking = block::blocking_for(*kernel_, platform::cache_sizes());
    return fmt::format("kernel {}, register block {} x {}, at most {} x {} of C at a time",
                       kernel_->target, kernel_->mr, kernel_->nr, blocking.mc, blocking.nc);
  }
  DType type() const override { return kernel_->type; }
  bool exact() const override { return true; }
  std::size_t weight_bytes() const override { return static_cast<std::size_t>(weights_->bytes()); }
  Matrix result() override {
    return dense(c_.data(), kernel_->accumulator, operands_.a.rows, operands_.b.cols);
  }

  Status prepare(const Operands& operands, int threads) override {
    operands_ = operands;
    pipeline_.reset();
    weights_.reset();
    const auto elements = static_cast<std::size_t>(operands.a.rows * operands.b.cols);
    if (Status s = c_.ensure(elements * size_of(kernel_->accumulator)); !s.ok()) return s;
    auto weights = PackedWeights::pack(operands.b, {.kernel = std::string(kernel_->target)});
    if (!weights.ok()) return weights.status();
    weights_ = std::move(weights).value();
    // Raw s32 sums: no scale. The bias takes back what a kernel adds to make A unsigned.
    factors_ = {.bias = weights_->impl().bias};

    auto worlds = World::threads(1);
    if (!worlds.ok()) return worlds.status();
    // Nothing travels: the least window will do.
    auto pipeline = op::Pipeline::create(
        worlds->front().impl(), weights_->impl(), {.k = operands.b.rows, .type = type()},
        /*quantises=*/false,
        {.max_rows = 1, .compute_threads = threads, .timeout = std::chrono::seconds(60)});
    if (!pipeline.ok()) return pipeline.status();
    pipeline_ = std::move(pipeline).value();
    return {};
  }

  Status run() override {
    const std::array<std::int64_t, 1> rows{operands_.a.rows};
    return pipeline_->multiply(
        operands_.a, /*row_scales=*/nullptr, rows,
        {.c = result(), .dequantisation = type() == DType::s8 ? &factors_ : nullptr});
  }

 private:
  const tile::Kernel* kernel_;
  Operands operands_;
  Buffer c_;
  std::optional<PackedWeights> weights_;
  block::Dequantisation factors_;
  std::unique_ptr<op::Pipeline> pipeline_;
};

}  // namespace

void add_tandem(const PeerOptions& options, PeerList& list) {
  for (const DType type : options.types) {
    auto kernel = tile::select_kernel(type, options.kernel, platform::cpu_features());
    if (kernel.ok() && (*kernel)->target == "scalar" && options.kernel != "scalar") {
      list.absent.push_back({fmt::format("tandem {}", tandem::name(type)),
                             "only the scalar kernel; --kernel scalar measures it"});
    } else if (kernel.ok()) {
      list.peers.push_back(std::make_unique<TandemPeer>(*kernel));
    } else {
      list.absent.push_back(
          {fmt::format("tandem {}", tandem::name(type)), kernel.status().message()});
    }
  }
}

}  // namespace tandem::bench
