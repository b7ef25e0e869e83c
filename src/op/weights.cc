// SPDX-License-Identifier: Apache-2.0
//
// PackedWeights: chooses the kernel, gets the memory, packs B with a few threads.
#include "tandem/weights.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "base/guarded.h"
#include "block/multiply.h"
#include "op/kernel_choice.h"
#include "op/parallel.h"
#include "op/validate.h"
#include "platform/page_buffer.h"
#include "platform/topology.h"

namespace tandem {
namespace {

constexpr DType kTypes[] = {DType::f16, DType::bf16, DType::f32, DType::s8};

struct Storage {
  platform::PageBuffer memory;
  block::PackedB packed;
  std::vector<std::int32_t> bias;
};

/// Per column of an s8 B: Σ b and Σ |b| over K.
struct ColumnSums {
  std::vector<std::int64_t> plain, absolute;
};

/// So many bytes can be summed in 32 bits, of which compilers make vectors.
constexpr std::int64_t kExact = 1 << 24;

/// Columns of a strip of K×N: their sums stay in L1 while K goes by.
constexpr std::int64_t kStrip = 512;

void sum_columns(const ConstMatrix& b, std::int64_t col0, std::int64_t cols, ColumnSums& sums) {
  for (std::int64_t k0 = 0; k0 < b.rows; k0 += kExact) {
    std::array<std::int32_t, kStrip> plain{}, absolute{};
    for (std::int64_t k = k0; k < std::min(k0 + kExact, b.rows); ++k) {
      const auto* row = reinterpret_cast<const std::int8_t*>(b.row(k)) + col0;
      for (std::int64_t j = 0; j < cols; ++j) {
        const std::int32_t value = row[j];
        plain[static_cast<std::size_t>(j)] += value;
        absolute[static_cast<std::size_t>(j)] += value < 0 ? -value : value;
      }
    }
    for (std::int64_t j = 0; j < cols; ++j) {
      sums.plain[static_cast<std::size_t>(col0 + j)] += plain[static_cast<std::size_t>(j)];
      sums.absolute[static_cast<std::size_t>(col0 + j)] += absolute[static_cast<std::size_t>(j)];
    }
  }
}

/// Of one column that lies along k, as in N×K.
void sum_along(const std::int8_t* column, std::int64_t k, std::int64_t* plain,
               std::int64_t* absolute) {
  for (std::int64_t k0 = 0; k0 < k; k0 += kExact) {
    std::int32_t part = 0, absolute_part = 0;
    for (std::int64_t i = k0; i < std::min(k0 + kExact, k); ++i) {
      const std::int32_t value = column[i];
      part += value;
      absolute_part += value < 0 ? -value : value;
    }
    *plain += part;
    *absolute += absolute_part;
  }
}

ColumnSums column_sums(const ConstMatrix& b, BLayout layout, std::int64_t n) {
  ColumnSums sums{std::vector<std::int64_t>(static_cast<std::size_t>(n)),
                  std::vector<std::int64_t>(static_cast<std::size_t>(n))};
  if (layout == BLayout::kn) {
    for (std::int64_t j = 0; j < n; j += kStrip) sum_columns(b, j, std::min(kStrip, n - j), sums);
  } else {
    for (std::int64_t j = 0; j < n; ++j) {
      const auto i = static_cast<std::size_t>(j);
      sum_along(reinterpret_cast<const std::int8_t*>(b.row(j)), b.cols, &sums.plain[i],
                &sums.absolute[i]);
    }
  }
  return sums;
}

/// The contract's guard (docs/numerics.md, rule 2): with A anywhere in -128..127 no sum, bias
/// included, leaves s32.
Status check_sums(const ColumnSums& sums, std::span<const std::int32_t> bias) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  for (std::size_t j = 0; j < sums.absolute.size(); ++j) {
    const std::int64_t offset = bias.empty() ? 0 : std::abs(std::int64_t{bias[j]});
    const std::int64_t bound = sums.absolute[j] * 128 + offset;
    if (bound <= kMost) continue;
    return {
        StatusCode::kInvalidArgument,
        fmt::format("column {} of B can reach {} (128 times the sum of its magnitudes, plus its "
                    "bias), beyond the s32 limit {}; split K or scale the column down",
                    j, bound, kMost)};
  }
  return {};
}

/// What the epilogue adds to each packed column: the bias, less what the kernel's offset of A adds.
std::vector<std::int32_t> packed_bias(const ColumnSums& sums, std::span<const std::int32_t> bias,
                                      const block::PackedB& packed) {
  std::vector<std::int32_t> result(static_cast<std::size_t>(packed.panels() * packed.kernel->nr),
                                   0);
  for (std::size_t j = 0; j < sums.plain.size(); ++j) {
    // Modulo 2^32, as the sums themselves.
    const auto excess = static_cast<std::uint32_t>(sums.plain[j] * packed.kernel->a_offset);
    const auto wanted = bias.empty() ? 0U : static_cast<std::uint32_t>(bias[j]);
    result[j] = static_cast<std::int32_t>(wanted - excess);
  }
  return result;
}

Status check_bias(DType type, std::span<const std::int32_t> bias, std::int64_t n) {
  if (!bias.empty() && type != DType::s8) {
    return {StatusCode::kInvalidArgument,
            fmt::format("a bias was given for {} weights; only s8 weights take one", name(type))};
  }
  return op::check_list("bias", bias.data(), bias.size(), {.count = n, .optional = true});
}

/// Packing fills up panels and groups of K: what fits 63 bits must do so then as well.
Status check_packed_size(const block::PackedB& packed) {
  std::int64_t bytes = 0;
  const std::int64_t rounded = packed.k + packed.kernel->k_group;
  if (!__builtin_mul_overflow(rounded, packed.n + packed.kernel->nr, &bytes) &&
      !__builtin_mul_overflow(bytes, static_cast<std::int64_t>(packed.kernel->b_bytes), &bytes)) {
    return {};
  }
  return {StatusCode::kOutOfMemory,
          fmt::format("b has K = {} and N = {}: packed it would take more than 2^63 bytes",
                      packed.k, packed.n)};
}

Result<const tile::Kernel*> wanted_kernel(DType type, std::string target) {
  const char* forced = std::getenv("TANDEM_KERNEL");
  const bool from_environment = target == "auto" && forced != nullptr && *forced != '\0';
  if (from_environment) target = forced;
  auto kernel = op::choose_kernel(type, target);
  if (!kernel.ok() && from_environment) {
    const Status status = kernel.status();
    return Status(status.code(), fmt::format("TANDEM_KERNEL: {}", status.message()));
  }
  return kernel;
}

/// The packed form, and what owns its memory.
Result<std::shared_ptr<const block::PackedB>> pack_weights(const ConstMatrix& b,
                                                           const PackOptions& options) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const bool kn = options.layout == BLayout::kn;
  const std::int64_t k = kn ? b.rows : b.cols, n = kn ? b.cols : b.rows;
  Status valid =
      op::first_failure(op::check_layout(options.layout), op::check_range("K", k, 1, kMost),
                        op::check_range("N", n, 1, kMost), op::check_matrix("b", b, kTypes),
                        op::check_range("threads", options.threads, 1, op::kMaxThreads),
                        check_bias(b.type, options.bias, n));
  if (!valid.ok()) return valid;
  auto kernel = wanted_kernel(b.type, options.kernel);
  if (!kernel.ok()) return kernel.status();

  auto storage = std::make_shared<Storage>();
  block::PackedB& packed = storage->packed;
  packed.kernel = *kernel;
  packed.k = k;
  packed.n = n;
  if (Status status = check_packed_size(packed); !status.ok()) return status;
  auto memory = platform::PageBuffer::create(packed.bytes(), /*huge=*/true, "packed weights");
  if (!memory.ok()) return memory.status();
  storage->memory = std::move(memory).value();
  packed.data = storage->memory.data();

  if (b.type == DType::s8) {
    const ColumnSums sums = column_sums(b, options.layout, packed.n);
    if (Status status = check_sums(sums, options.bias); !status.ok()) return status;
    storage->bias = packed_bias(sums, options.bias, packed);
    packed.bias = storage->bias.data();
  }

  // One share a thread: neighbouring panels read the same lines of B.
  const std::int64_t panels = packed.panels();
  const std::int64_t shares = std::min<std::int64_t>(options.threads, panels);
  Status status = op::in_parallel(shares, options.threads, [&](op::Pieces& pieces) -> Status {
    while (const auto share = pieces.take()) {
      const std::int64_t first = panels * *share / shares, end = panels * (*share + 1) / shares;
      const std::size_t at = static_cast<std::size_t>(first) * packed.panel_bytes();
      const std::size_t bytes = static_cast<std::size_t>(end - first) * packed.panel_bytes();
      // By who packs them, so that they lie on that thread's NUMA node.
      if (Status s = storage->memory.touch(at, bytes); !s.ok()) return s;
      block::pack_b(b, options.layout, first, end, packed);
    }
    return {};
  });
  if (!status.ok()) return status;
  return std::shared_ptr<const block::PackedB>(storage, &storage->packed);
}

}  // namespace

Result<PackedWeights> PackedWeights::pack(ConstMatrix b, PackOptions options) {
  return base::guarded([&]() -> Result<PackedWeights> {
    auto packed = pack_weights(b, options);
    if (!packed.ok()) return packed.status();
    return PackedWeights(std::move(packed).value());
  });
}

std::int64_t PackedWeights::k() const { return impl_->k; }
std::int64_t PackedWeights::n() const { return impl_->n; }
DType PackedWeights::type() const { return impl_->kernel->type; }
std::string PackedWeights::kernel() const {
  return base::guarded_or("out of memory", [&] { return std::string(impl_->kernel->target); });
}
std::int64_t PackedWeights::bytes() const { return static_cast<std::int64_t>(impl_->bytes()); }

}  // namespace tandem
