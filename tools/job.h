// SPDX-License-Identifier: Apache-2.0
//
// Job: what gen, run and bench work on, once options, environment, manifest and defaults have been
// put together and checked. job_options.cc makes one; operators read it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "matrix_file.h"
#include "tandem/transport.h"
#include "tandem/types.h"

namespace tandem::tool {

struct Operator;

struct Job {
  const Operator* op = nullptr;
  int ranks = 0;
  std::int64_t m = 0, k = 0, n = 0;
  std::vector<std::int64_t> rows;  ///< of every rank; their sum is m
  DType a_type = DType::f16, c_type = DType::f32;
  BLayout b_layout = BLayout::nk;
  std::uint64_t seed = 1;
  Path data_dir;  ///< empty = no files

  std::string kernel = "auto";
  Transfer transfer = Transfer::pull;
  TransportSpec transport;
  int compute_threads = 1, comm_threads = 1;
  std::int64_t tile_m = 0, tile_k = 0;
  int iterations = 1, warmup = 0;
  std::optional<std::chrono::milliseconds> timeout;

  bool thread_ranks = false;
  bool json = false, quiet = false, reuse = false;

  /// Rows before those of `rank`.
  [[nodiscard]] std::int64_t row0(int rank) const;
  /// Rows of the largest shard, at least 1: the operator's capacity.
  [[nodiscard]] std::int64_t max_rows() const;
};

/// m rows over the ranks, as even as possible, larger shards first.
[[nodiscard]] std::vector<std::int64_t> split_rows(std::int64_t m, int ranks);

/// The size of TANDEM_SIZE when this process is a rank of a launched world, else nothing.
/// Errors: kInvalidArgument when a variable is not a number.
[[nodiscard]] Result<std::optional<int>> launched_size();

/// Whether `bytes` for all ranks of the job together can be had. Each rank's own allocations are
/// checked by the library too, but only the job knows that all ranks come at once.
/// Errors: kOutOfMemory.
Status check_memory(const Job& job, double bytes);

/// Bytes that all ranks hold at least: inputs, outputs, packed weights and one window slot.
[[nodiscard]] double run_bytes(const Job& job);
/// The same for bench, which also keeps a gathered A on every rank.
[[nodiscard]] double bench_bytes(const Job& job);
/// The same for gen: the largest shard of A, B, and as many rows of C.
[[nodiscard]] double gen_bytes(const Job& job);

}  // namespace tandem::tool
