// SPDX-License-Identifier: Apache-2.0
//
// The numerics contract's one constant. Read docs/numerics.md.
#pragma once

#include <cstdint>

namespace tandem::tile {

/// K is cut into blocks of kKc: within a block acc = fma(a, b, acc) from zero, blocks are added in
/// ascending order, the first one stored. The same for every type, shape, target and thread count;
/// changing it changes result bits. 256 keeps one B panel (256 × 32 f16 = 16 KiB) in half of a
/// 32 KiB L1 beside the A panel, and shortens the rounding chain from K to 256 + K/256 additions.
inline constexpr std::int64_t kKc = 256;

}  // namespace tandem::tile
