// SPDX-License-Identifier: Apache-2.0
//
// RowSource: any rows of any rank's sharded inputs, from their files or made again from the seed,
// so that a verification never needs all of A at once.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "job.h"
#include "matrix_memory.h"
#include "operators.h"

namespace tandem::tool {

class RowSource {
 public:
  explicit RowSource(const Job& job) : job_(job) {}

  /// Rows [row0, row0 + to.rows) of the shard of `rank`, of its input number `input`.
  Status read(int rank, std::size_t input, std::int64_t row0, const Matrix& to);

 private:
  struct Source {
    Input input;
    std::optional<MatrixReader> file;
  };
  Result<Source*> open(int rank, std::size_t input);

  const Job& job_;
  std::map<std::pair<int, std::size_t>, Source> sources_;
};

/// Memory for rows of the sharded inputs, beside the others as they are.
class RowBlock {
 public:
  static Result<RowBlock> create(const Job& job, const std::vector<Matrix>& inputs,
                                 std::int64_t most_rows);
  /// All inputs, of the sharded ones the first `rows` rows of the block.
  [[nodiscard]] std::vector<Matrix> inputs(std::int64_t rows) const;
  /// Reads rows of a shard into the rows of the block from `at` on.
  Status fill(RowSource& source, int rank, std::int64_t row0, std::int64_t rows,
              std::int64_t at) const;

 private:
  std::vector<Matrix> others_;
  std::map<std::size_t, MatrixMemory> sharded_;
};

}  // namespace tandem::tool
