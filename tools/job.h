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
#include "tandem/stream_options.h"
#include "tandem/transport.h"
#include "tandem/types.h"

namespace tandem::tool {

struct Operator;

/// How much of C is compared with the reference.
enum class Verify { automatic, whole, sampled };
/// Values of the inputs: random, or all ones with a fixed scale, for debugging.
enum class Fill { random, ones };
/// Names of data files: Tandem's own, or those of the CATCCOS example.
enum class FileNames { tandem, catccos };

struct Job {
  const Operator* op = nullptr;
  int ranks = 0;
  std::int64_t m = 0, k = 0, n = 0;
  std::vector<std::int64_t> rows;  ///< of every rank; their sum is m
  DType a_type = DType::f16, c_type = DType::f32;
  BLayout b_layout = BLayout::nk;
  std::uint64_t seed = 1;
  Path data_dir;  ///< empty = no files
  FileNames file_names = FileNames::tandem;
  Fill fill = Fill::random;
  Verify verify = Verify::automatic;

  // Of allgather-gemm-dequant.
  bool bias = true, row_scales = false, saturate = false;
  bool accumulators = false;  ///< the sums are an output too
  double scale_size = 1;      ///< the random scales are multiplied by this

  std::string kernel = "auto";
  Transfer transfer = Transfer::pull;
  TransportSpec transport;
  int compute_threads = 1, comm_threads = 1;
  bool default_threads = false;  ///< nobody asked for so many compute threads
  std::int64_t tile_m = 0, tile_k = 0;
  Workspace workspace = Workspace::full;
  std::int64_t stage_rows = 0;
  int stages = 2;
  int iterations = 1, warmup = 0;
  std::chrono::milliseconds time_budget{0};
  std::optional<std::chrono::milliseconds> timeout;

  bool thread_ranks = false;
  std::vector<int> devices;  ///< of each rank; empty = the command places them
  bool json = false, quiet = false, reuse = false;

  /// Rows before those of `rank`.
  [[nodiscard]] std::int64_t row0(int rank) const;
  /// Rows of the largest shard, at least 1: the operator's capacity.
  [[nodiscard]] std::int64_t max_rows() const;
  [[nodiscard]] double operations() const;         ///< 2·M·K·N
  [[nodiscard]] DType b_type() const;              ///< s8, or as A
  [[nodiscard]] DType travelling_type() const;     ///< of A between ranks
  [[nodiscard]] double reference_seconds() const;  ///< of one thread for all of C, about
  /// Whether all of C is compared with the reference; by default where that takes a minute or less.
  [[nodiscard]] bool verifies_whole() const;
  [[nodiscard]] StreamOptions stream_options() const;
  [[nodiscard]] int processes() const { return thread_ranks ? 1 : ranks; }
};

/// m rows over the ranks, as even as possible, larger shards first.
[[nodiscard]] std::vector<std::int64_t> split_rows(std::int64_t m, int ranks);

/// The size of TANDEM_SIZE when this process is a rank of a launched world, else nothing.
/// Errors: kInvalidArgument when a variable is not a number.
[[nodiscard]] Result<std::optional<int>> launched_size();

/// Whether `bytes` for all ranks of the job together, which are so many processes of this machine,
/// can be had. Each rank's own allocations are
/// checked by the library too, but only the job knows that all ranks come at once.
/// Errors: kOutOfMemory.
Status check_memory(const Job& job, double bytes, int processes);

/// Bytes that all ranks hold at least: inputs, outputs, packed weights and windows.
[[nodiscard]] double run_bytes(const Job& job);
/// The same for bench, which also keeps a gathered A on every rank.
[[nodiscard]] double bench_bytes(const Job& job);
/// The same for gen: the largest shard of A, B, and as many rows of C.
[[nodiscard]] double gen_bytes(const Job& job);

}  // namespace tandem::tool
