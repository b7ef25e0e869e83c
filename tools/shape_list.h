// SPDX-License-Identifier: Apache-2.0
//
// Lists of shapes: CSV with a header that names the columns M, K and N, in any order and among
// others. `bench --shapes` and `trial` read them.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "matrix_file.h"
#include "tandem/status.h"

namespace tandem::tool {

struct Shape {
  std::int64_t m = 0, k = 0, n = 0;
  auto operator<=>(const Shape&) const = default;
  /// "64 x 16384 x 7168".
  [[nodiscard]] std::string text() const;
};

/// At least one shape. Blank lines and spaces do not count. Errors: kInvalidArgument, with the line
/// and what is wrong there.
[[nodiscard]] Result<std::vector<Shape>> read_shapes(const Path& path);

}  // namespace tandem::tool
