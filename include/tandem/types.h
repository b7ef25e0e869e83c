// SPDX-License-Identifier: Apache-2.0
//
// The element types and the named choices that appear in the API, each with the spelling that
// the command line, JSON and error messages use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tandem/export.h"

namespace tandem {

/// Element types. f16 is IEEE binary16, bf16 the upper half of binary32; both little-endian.
enum class DType : std::uint8_t { f16, bf16, f32, s8, s32 };

/// How B lies in memory: `kn` is K rows of N, `nk` is N rows of K (B transposed, as in the seed).
enum class BLayout : std::uint8_t { kn, nk };

/// Who moves a chunk: the reader, straight from the owner's window, or the owner, into every
/// peer's window. Both give the same bits.
enum class Transfer : std::uint8_t { pull, push };

[[nodiscard]] TANDEM_API std::size_t size_of(DType type);
[[nodiscard]] TANDEM_API std::string_view name(DType type);
[[nodiscard]] TANDEM_API std::string_view name(BLayout layout);
[[nodiscard]] TANDEM_API std::string_view name(Transfer transfer);

/// The inverse of name(); empty when the text names nothing.
[[nodiscard]] TANDEM_API std::optional<DType> parse_dtype(std::string_view text);
[[nodiscard]] TANDEM_API std::optional<BLayout> parse_b_layout(std::string_view text);
[[nodiscard]] TANDEM_API std::optional<Transfer> parse_transfer(std::string_view text);

}  // namespace tandem
