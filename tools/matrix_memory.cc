// SPDX-License-Identifier: Apache-2.0
//
// MatrixMemory over aligned_alloc.
#include "matrix_memory.h"

#include <fmt/format.h>

namespace tandem::tool {
namespace {

// A page: what the library's own buffers have, and every vector load is aligned.
constexpr std::size_t kAlignment = 4096;

}  // namespace

Result<MatrixMemory> MatrixMemory::create(DType type, std::int64_t rows, std::int64_t cols) {
  const auto refuse = [&] {
    return Status(StatusCode::kOutOfMemory,
                  fmt::format("no memory for a matrix of {} x {} in {}: use smaller shapes or "
                              "fewer ranks",
                              rows, cols, name(type)));
  };
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(rows, cols, &bytes) ||
      __builtin_mul_overflow(bytes, static_cast<std::int64_t>(size_of(type)), &bytes)) {
    return refuse();
  }
  // At least one page, so that an empty matrix has an address as well.
  const std::size_t pages = static_cast<std::size_t>(bytes) / kAlignment + 1;
  MatrixMemory made;
  made.memory_.reset(std::aligned_alloc(kAlignment, pages * kAlignment));
  if (!made.memory_) return refuse();
  made.view_ = dense(made.memory_.get(), type, rows, cols);
  return made;
}

}  // namespace tandem::tool
