// SPDX-License-Identifier: Apache-2.0
//
// AlignedBytes: memory that begins at a cache line, as panels and tiles do. For small things off
// the fused path: what is large lies in a platform::PageBuffer. Used by the self-check and
// benchmarks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

namespace tandem::base {

struct AlignedDelete {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t(64)); }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedDelete>;

/// `size` zeros. Throws std::bad_alloc.
[[nodiscard]] inline AlignedBytes make_aligned(std::size_t size) {
  AlignedBytes bytes(new (std::align_val_t(64)) std::byte[size]);
  std::fill_n(bytes.get(), size, std::byte{0});
  return bytes;
}

}  // namespace tandem::base
