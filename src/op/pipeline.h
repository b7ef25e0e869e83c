// SPDX-License-Identifier: Apache-2.0
//
// Pipeline: what every streaming operator is made of. It owns the window with its slots, the lanes,
// the threads and their scratch memory, and runs a call: header, credits, the communication
// engine beside the compute engine, done. Operators validate and then call run(). run() is the
// place to start reading; docs/protocol.md tells the story.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "block/multiply.h"
#include "op/workspace.h"
#include "platform/page_buffer.h"
#include "platform/team.h"
#include "stream/arrivals.h"
#include "stream/call_header.h"
#include "stream/comm_engine.h"
#include "stream/compute_engine.h"
#include "symm/world.h"
#include "tandem/stream_options.h"
#include "transport/lane.h"

namespace tandem::op {

/// What part of the operator a call performs. Measurements use the parts alone.
enum class Phase : std::int32_t { fused, gather };

/// One rank's arguments of a call, valid.
struct PipelineCall {
  ConstMatrix a;
  const float* row_scale = nullptr;  ///< of A's rows, where the caller gives them
  stream::Output output;
};

class Pipeline {
 public:
  /// Collective. `weights` and `options` are valid; the weights must outlive the pipeline. When
  /// `quantises`, A comes in floats and becomes s8 with row scales on its way.
  static Result<std::unique_ptr<Pipeline>> create(std::shared_ptr<symm::World> world,
                                                  const block::PackedB& weights,
                                                  const Travelling& what, bool quantises,
                                                  const StreamOptions& options);

  /// Collective. Phase::gather leaves C alone. `valid` says whether this rank's arguments are;
  /// where they are not, the others are told, and every rank's call returns an error with this rank
  /// and the reason. After that, and after kMismatch, the pipeline can be called again.
  Status run(const PipelineCall& call, std::span<const std::int64_t> rows, Phase phase,
             const Status& valid);
  /// Not collective: the same multiply over gathered A that lies in local memory.
  Status multiply(ConstMatrix gathered, const float* row_scales, std::span<const std::int64_t> rows,
                  const stream::Output& output);

  Result<Matrix> acquire_input(std::int64_t rows);
  /// True for the view that acquire_input() gave for the next call.
  [[nodiscard]] bool is_in_place(const ConstMatrix& a) const;
  /// kInvalidArgument for rows in any other place of this window.
  [[nodiscard]] Status check_place(const ConstMatrix& a) const;
  [[nodiscard]] bool in_window(const ConstMatrix& m) const;

  [[nodiscard]] stream::ChunkPlan plan(std::int64_t rows) const { return {policy_, rows}; }
  [[nodiscard]] std::int64_t window_bytes() const {
    return static_cast<std::int64_t>(window_->bytes());
  }
  [[nodiscard]] int rank() const { return window_->rank(); }
  [[nodiscard]] int size() const { return window_->size(); }

 private:
  Pipeline(std::shared_ptr<symm::World> world, const block::PackedB& weights,
           const Travelling& what, bool quantises, const StreamOptions& options);

  /// What a rank needs for itself: scratch memory and threads.
  Status allocate();
  Status create_window();
  /// What stands on the window: lanes, and to whom they send.
  Status equip(symm::Window& window);
  /// To whom this rank sends, and in which order.
  [[nodiscard]] std::vector<stream::SendStep> send_steps() const;

  /// Where a source's stages of the next call go.
  [[nodiscard]] stream::StageRing ring(int source) const;
  /// Counters of a part: headers, stages done, then progress, each by the other rank.
  [[nodiscard]] int header_counter() const { return 0; }
  [[nodiscard]] int stage_counter() const { return size(); }
  [[nodiscard]] int progress_counter(int source) const {
    return 2 * size() + source * options_.comm_threads;
  }

  [[nodiscard]] std::vector<stream::Shard> shards(const PipelineCall& call,
                                                  std::span<const std::int64_t> rows) const;
  [[nodiscard]] bool sends_inline(const stream::SendJob& job) const;
  /// Ok when a call may begin. Collective where the last one was refused: counting begins anew.
  Status begin();
  Status refuse(const Status& reason, stream::CallHeaders& headers);
  Status perform(const PipelineCall& call, std::span<const std::int64_t> rows, Phase phase,
                 bool in_place, stream::CallHeaders& headers);
  Status compute(stream::ComputeJob& job, const stream::Arrivals& arrivals);
  /// Ends this call on every rank; the failure that stands. Of memory, it names this rank.
  Status fail(const Status& failure) const;
  /// Moves the counts on to the next call.
  void advance(std::span<const stream::Shard> shards);

  std::shared_ptr<symm::World> world_;
  const block::PackedB* weights_;
  StreamOptions options_;
  Travelling what_;
  bool quantises_ = false;
  WorkspacePlan workspace_;
  stream::TilePolicy policy_;
  std::int64_t shared_rows_ = 0;  ///< of a block that several ranks' rows are in, at most
  block::Blocking blocking_;
  std::unique_ptr<symm::Window> window_;
  std::vector<std::unique_ptr<transport::Lane>> lanes_;
  std::vector<stream::SendStep> send_steps_;
  std::unique_ptr<platform::Team> lane_team_, compute_team_;
  platform::PageBuffer scratch_memory_;
  std::vector<stream::Scratch> scratch_;
  std::uint64_t call_ = 0;          ///< number of the last call
  std::uint64_t restarted_at_ = 0;  ///< the call after which counting began anew
  std::uint64_t input_for_ = 0;     ///< the call that acquire_input() gave a place for; 0 = none
  std::array<std::uint64_t, kMaxRanks> stages_before_{};  ///< stages of all calls so far, by source
  std::array<std::array<std::uint32_t, kMaxLanes>, kMaxRanks>
      base_{};  ///< progress before the next call
};

}  // namespace tandem::op
