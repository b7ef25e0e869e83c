// SPDX-License-Identifier: Apache-2.0
//
// World: the ranks that compute together, seen from one of them. Start here: make a world, make
// an operator on it (allgather_gemm.h), call the operator. Ranks are threads of this process, or
// processes started by `tandem launch`; the code that uses a World cannot tell.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/export.h"
#include "tandem/status.h"

namespace tandem {

namespace symm {
class World;
}

/// Most ranks that one machine's world may have.
inline constexpr int kMaxRanks = 64;

struct WorldOptions {
  /// Longest time any wait may take before it returns kTimeout; at least 1 ms, and however much
  /// more: milliseconds::max() waits for as long as a process lives. The environment variable
  /// TANDEM_TIMEOUT_MS, when set, gives the default for worlds made by from_environment() and
  /// mpi::make_world().
  std::chrono::milliseconds timeout{30000};
};

/// One rank's handle of its world. Movable, shareable by copy (copies are the same rank).
/// Thread-safety: one World may be used from several threads of its rank, but collective
/// members (marked so) must be called in the same order on every rank; ranks that meet in
/// different ones get kMismatch. In a process forked from a rank's all members return kUnsupported;
/// a new world can be made there.
class TANDEM_API World {
 public:
  /// Makes a world of `size` thread ranks (1..kMaxRanks) and returns one handle per rank, in
  /// rank order. Hand each to a thread of its own: a collective call blocks until all join.
  static Result<std::vector<World>> threads(int size, WorldOptions options = {});

  /// Joins the world that `tandem launch` (or tandem::launch()) put in this process's
  /// environment: TANDEM_RANK, TANDEM_SIZE and TANDEM_FD. Collective over that world.
  /// Without these variables the world is this process alone: rank 0 of 1; but when mpirun, srun
  /// or torchrun started it as one of several, by their variables, that is refused
  /// (kInvalidArgument): see tandem::mpi::make_world(), or ask for threads(1).
  static Result<World> from_environment();
  static Result<World> from_environment(WorldOptions options);

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] std::chrono::milliseconds timeout() const;

  /// Collective. Returns when every rank has called it, or with kTimeout / kPeerLost. The
  /// operators never use it; programs do, to start a measurement together.
  Status barrier() const;

  /// For a rank that cannot take part in the next collective of this world (it could not read its
  /// weights, say): takes its place in it, so that every other rank's create(), barrier() or
  /// all_gather() returns at once, with an error that names this rank and `reason`. The world can
  /// be used on. Returns `reason`, or why the others could not be told. `reason` must not be kOk.
  /// Operators refuse what they find wrong in their own arguments by themselves.
  Status refuse(const Status& reason) const;

  /// Collective. Gathers one number of every rank, in rank order.
  [[nodiscard]] Result<std::vector<double>> all_gather(double value) const;

  /// The engine room's view, for the library itself.
  [[nodiscard]] const std::shared_ptr<symm::World>& impl() const { return impl_; }
  explicit World(std::shared_ptr<symm::World> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<symm::World> impl_;
};

}  // namespace tandem
