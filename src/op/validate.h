// SPDX-License-Identifier: Apache-2.0
//
// Checks of what users pass to operators. Every check returns kInvalidArgument with the name of the
// argument, the value, the bound and the remedy. Called before anything is changed.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tandem/matrix.h"
#include "tandem/status.h"

namespace tandem::op {

/// The first failure of a list of checks, or Ok.
template <class... Checks>
Status first_failure(const Checks&... checks) {
  Status result;
  ((result.ok() && !checks.ok() ? void(result = checks) : void()), ...);
  return result;
}

[[nodiscard]] Status check_range(std::string_view what, std::int64_t value, std::int64_t least,
                                 std::int64_t most);

/// The view describes memory that can exist: type in `types`, no negative size, stride at least
/// cols, data not null unless empty, extent below 2^63 bytes.
[[nodiscard]] Status check_matrix(std::string_view what, const ConstMatrix& m,
                                  std::span<const DType> types);

/// One of the layouts that have a name.
[[nodiscard]] Status check_layout(BLayout layout);

/// A list of `size` numbers at `data` where one for each of `count` rows or columns (`each`) is
/// needed. Also right: a single one where `one_for_all`, none where `optional`.
struct ListRule {
  std::int64_t count = 0;
  std::string_view each = "column";
  bool one_for_all = false;
  bool optional = false;
};
[[nodiscard]] Status check_list(std::string_view what, const void* data, std::size_t size,
                                const ListRule& rule);

[[nodiscard]] Status check_shape(std::string_view what, const ConstMatrix& m, std::int64_t rows,
                                 std::int64_t cols);

/// No byte belongs to both (the gaps between strided rows count as theirs).
[[nodiscard]] Status check_disjoint(std::string_view what_a, const ConstMatrix& a,
                                    std::string_view what_b, const ConstMatrix& b);

}  // namespace tandem::op
