// SPDX-License-Identifier: Apache-2.0
//
// MatrixMemory: a dense matrix that the command owns. Allocation returns a Status, as everything
// in Tandem does; job.cc has checked before that the whole job fits.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "tandem/matrix.h"
#include "tandem/status.h"

namespace tandem::tool {

/// Rows [row0, row0 + rows) of a matrix.
[[nodiscard]] inline Matrix rows_of(const Matrix& m, std::int64_t row0, std::int64_t rows) {
  return {m.row(row0), m.type, rows, m.cols, m.stride};
}

class MatrixMemory {
 public:
  /// Contents are undefined. Errors: kOutOfMemory.
  static Result<MatrixMemory> create(DType type, std::int64_t rows, std::int64_t cols);

  [[nodiscard]] const Matrix& view() const { return view_; }
  [[nodiscard]] Matrix rows(std::int64_t row0, std::int64_t rows) const {
    return rows_of(view_, row0, rows);
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  Matrix view_;
};

/// Bytes of a dense matrix.
[[nodiscard]] inline std::int64_t bytes_of(const ConstMatrix& m) {
  return m.rows * m.cols * static_cast<std::int64_t>(size_of(m.type));
}

}  // namespace tandem::tool
