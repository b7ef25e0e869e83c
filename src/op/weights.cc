// SPDX-License-Identifier: Apache-2.0
//
// PackedWeights: chooses the kernel, gets the memory, packs B with a few threads.
#include "tandem/weights.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include "block/multiply.h"
#include "op/validate.h"
#include "platform/page_buffer.h"
#include "platform/team.h"
#include "platform/topology.h"

namespace tandem {
namespace {

constexpr std::int64_t kMaxThreads = 1024;
constexpr DType kTypes[] = {DType::f16, DType::bf16, DType::f32};

struct Storage {
  platform::PageBuffer memory;
  block::PackedB packed;
};

Result<const tile::Kernel*> choose_kernel(DType type, std::string target) {
  const char* forced = std::getenv("TANDEM_KERNEL");
  const bool from_environment = target == "auto" && forced != nullptr && *forced != '\0';
  if (from_environment) target = forced;
  auto kernel = tile::select_kernel(type, target, platform::cpu_features());
  if (!kernel.ok() && from_environment) {
    const Status status = kernel.status();
    return Status(status.code(), fmt::format("TANDEM_KERNEL: {}", status.message()));
  }
  return kernel;
}

}  // namespace

Result<PackedWeights> PackedWeights::pack(ConstMatrix b, PackOptions options) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const bool kn = options.layout == BLayout::kn;
  Status valid = op::first_failure(op::check_range("K", kn ? b.rows : b.cols, 1, kMost),
                                   op::check_range("N", kn ? b.cols : b.rows, 1, kMost),
                                   op::check_matrix("b", b, kTypes),
                                   op::check_range("threads", options.threads, 1, kMaxThreads));
  if (!valid.ok()) return valid;
  auto kernel = choose_kernel(b.type, options.kernel);
  if (!kernel.ok()) return kernel.status();

  auto storage = std::make_shared<Storage>();
  block::PackedB& packed = storage->packed;
  packed.kernel = *kernel;
  packed.k = kn ? b.rows : b.cols;
  packed.n = kn ? b.cols : b.rows;
  auto memory = platform::PageBuffer::create(packed.bytes(), /*huge=*/true);
  if (!memory.ok()) return memory.status();
  storage->memory = std::move(memory).value();
  packed.data = storage->memory.data();

  const std::int64_t panels = packed.panels();
  const int workers = static_cast<int>(std::min<std::int64_t>(options.threads, panels)) - 1;
  const auto pack_share = [&](int share) {
    block::pack_b(b, options.layout, panels * share / (workers + 1),
                  panels * (share + 1) / (workers + 1), packed);
  };
  auto team = platform::Team::create(workers, "tandem-pack", platform::Spin{});
  if (!team.ok()) return team.status();
  team.value()->start(workers, pack_share);
  pack_share(workers);
  team.value()->join();
  return PackedWeights(std::shared_ptr<const block::PackedB>(storage, &storage->packed));
}

std::int64_t PackedWeights::k() const { return impl_->k; }
std::int64_t PackedWeights::n() const { return impl_->n; }
DType PackedWeights::type() const { return impl_->kernel->type; }
std::string PackedWeights::kernel() const { return std::string(impl_->kernel->target); }
std::int64_t PackedWeights::bytes() const { return static_cast<std::int64_t>(impl_->bytes()); }

}  // namespace tandem
