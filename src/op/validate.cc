// SPDX-License-Identifier: Apache-2.0
//
// Wording of the argument checks.
#include "op/validate.h"

#include <algorithm>
#include <limits>
#include <string>

#include <fmt/format.h>

namespace tandem::op {
namespace {

template <class... Args>
Status invalid(fmt::format_string<Args...> format, Args&&... args) {
  return {StatusCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...)};
}

std::string join(std::span<const DType> types) {
  std::string text;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (i > 0) text += i + 1 == types.size() ? " or " : ", ";
    text += name(types[i]);
  }
  return text;
}

/// Bytes from the first element to the end of the last row; 0 also for what check_matrix() refuses.
std::size_t extent(const ConstMatrix& m) {
  std::int64_t elements = 0;
  if (m.rows <= 0 || m.cols <= 0 || __builtin_mul_overflow(m.rows - 1, m.stride, &elements) ||
      __builtin_add_overflow(elements, m.cols, &elements)) {
    return 0;
  }
  return static_cast<std::size_t>(elements) * size_of(m.type);
}

}  // namespace

Status check_range(std::string_view what, std::int64_t value, std::int64_t least,
                   std::int64_t most) {
  if (value >= least && value <= most) return {};
  if (most == std::numeric_limits<std::int64_t>::max()) {
    return invalid("{} is {}; it must be at least {}", what, value, least);
  }
  return invalid("{} is {}; it must be between {} and {}", what, value, least, most);
}

Status check_matrix(std::string_view what, const ConstMatrix& m, std::span<const DType> types) {
  if (std::find(types.begin(), types.end(), m.type) == types.end()) {
    return invalid("{} has type {}; it must be {}", what, name(m.type), join(types));
  }
  if (m.rows < 0 || m.cols < 0) {
    return invalid("{} is {} x {}; rows and columns cannot be negative", what, m.rows, m.cols);
  }
  if (m.rows == 0 || m.cols == 0) return {};
  if (m.stride < m.cols) {
    return invalid(
        "{} has a stride of {} elements for {} columns; the stride must be at least the "
        "number of columns",
        what, m.stride, m.cols);
  }
  if (m.data == nullptr) {
    return invalid("{} is {} x {} but its data pointer is null; pass the address of element (0, 0)",
                   what, m.rows, m.cols);
  }
  std::int64_t elements = 0;
  if (__builtin_mul_overflow(m.rows, m.stride, &elements) ||
      elements > std::numeric_limits<std::int64_t>::max() / 8) {
    return invalid("{} has {} rows with a stride of {} elements, more than any memory holds", what,
                   m.rows, m.stride);
  }
  return {};
}

Status check_layout(BLayout layout) {
  if (layout == BLayout::kn || layout == BLayout::nk) return {};
  return invalid("the layout of b is {}; it must be BLayout::kn or BLayout::nk",
                 static_cast<int>(layout));
}

Status check_list(std::string_view what, const void* data, std::size_t size, const ListRule& rule) {
  const auto entries = static_cast<std::int64_t>(size);
  const bool right = entries == rule.count || (rule.one_for_all && entries == 1) ||
                     (rule.optional && entries == 0);
  if (!right) {
    return invalid("{} has {} entries for {} {}s; give one per {}{}{}", what, entries, rule.count,
                   rule.each, rule.each, rule.one_for_all ? ", or one for all" : "",
                   rule.optional ? ", or none" : "");
  }
  if (entries > 0 && data == nullptr) {
    return invalid("{} has {} entries but its data pointer is null; pass their address", what,
                   entries);
  }
  return {};
}

Status check_shape(std::string_view what, const ConstMatrix& m, std::int64_t rows,
                   std::int64_t cols) {
  if (m.rows == rows && m.cols == cols) return {};
  return invalid("{} is {} x {}; this call needs {} x {}", what, m.rows, m.cols, rows, cols);
}

Status check_disjoint(std::string_view what_a, const ConstMatrix& a, std::string_view what_b,
                      const ConstMatrix& b) {
  const auto begin_a = reinterpret_cast<std::uintptr_t>(a.data);
  const auto begin_b = reinterpret_cast<std::uintptr_t>(b.data);
  if (extent(a) == 0 || extent(b) == 0 || begin_a + extent(a) <= begin_b ||
      begin_b + extent(b) <= begin_a) {
    return {};
  }
  const std::uintptr_t shared =
      std::min(begin_a + extent(a), begin_b + extent(b)) - std::max(begin_a, begin_b);
  return invalid("{} and {} overlap in memory by {} bytes; pass separate matrices", what_a, what_b,
                 shared);
}

}  // namespace tandem::op
