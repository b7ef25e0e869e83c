// SPDX-License-Identifier: Apache-2.0
//
// The order of sending. send_shard() at the end is the place to start reading.
#include "stream/comm_engine.h"

#include <cstring>
#include <optional>

#include "base/float_environment.h"
#include "platform/delay.h"

namespace tandem::stream {
namespace {

/// One lane's view of a call.
class Sender {
 public:
  Sender(const SendJob& job, int index, transport::Lane& lane, symm::Window& window)
      : job_(job),
        index_(index),
        lane_(lane),
        window_(window),
        element_(size_of(job.type)),
        pitch_(static_cast<std::size_t>(job.shard.cols) * element_) {}

  /// Waits until the peer has read what lies where this stage goes.
  Status reserve(std::int64_t stage, int peer) {
    const std::uint64_t number = job_.ring.first + static_cast<std::uint64_t>(stage);
    const std::uint32_t credit = stage_credit(number, job_.ring.places);
    if (window_.test(job_.stage_counter + peer, credit)) return {};
    // The peer can only finish with what has arrived: nothing may be left under way.
    if (Status status = lane_.flush(); !status.ok()) return status;
    return wait_credit(window_, job_.stage_counter, peer, credit, job_.call, job_.timeout);
  }

  /// Brings a chunk into this rank's own ring, where all peers read it (pull) or from where it is
  /// pushed (quantised rows, and to other machines).
  void copy_in(std::int64_t c) {
    std::optional<base::FloatEnvironment> environment;
    if (job_.quantises()) environment.emplace();
    const Chunk chunk = job_.plan.chunk(c);
    for (std::int64_t i = chunk.row0; i < chunk.row0 + chunk.rows; ++i) {
      if (job_.quantises()) {
        auto* const to = reinterpret_cast<std::int8_t*>(own(offset(i, 0)));
        const float scale =
            job_.kernel->quantise(job_.shard.type, job_.shard.row(i), job_.shard.cols, to);
        std::memcpy(own(scale_offset(i)), &scale, sizeof scale);
      } else if (!job_.in_place) {
        window_.put(window_.rank(), offset(i, chunk.k0), source(i, chunk.k0),
                    static_cast<std::size_t>(chunk.cols) * element_);
      }
    }
    if (job_.row_scale != nullptr) {
      window_.put(window_.rank(), scale_offset(chunk.row0),
                  reinterpret_cast<const std::byte*>(job_.row_scale + chunk.row0),
                  static_cast<std::size_t>(chunk.rows) * sizeof(float));
    }
    platform::protocol_step("chunk copied to notify");
  }

  Status send(std::int64_t c, const Destination& to) {
    const Chunk chunk = job_.plan.chunk(c);
    transport::Parcel parcel{.peer = to.peer,
                             .counter = job_.progress_counter + index_,
                             .also = to.also,
                             .copy = job_.transfer == Transfer::push && to.peer != window_.rank(),
                             .from = source(chunk.row0, chunk.k0),
                             .from_pitch = static_cast<std::size_t>(job_.shard.stride) * element_,
                             .to = offset(chunk.row0, chunk.k0),
                             .to_pitch = pitch_,
                             .row_bytes = static_cast<std::size_t>(chunk.cols) * element_,
                             .rows = chunk.rows};
    if (job_.scales_at > 0) {
      parcel.extra_from = reinterpret_cast<const std::byte*>(job_.row_scale + chunk.row0);
      parcel.extra_to = scale_offset(chunk.row0);
      parcel.extra_bytes = static_cast<std::size_t>(chunk.rows) * sizeof(float);
    }
    if (job_.sends_from_ring()) {
      parcel.from = own(parcel.to);
      parcel.from_pitch = pitch_;
      parcel.extra_from = own(parcel.extra_to);
    }
    return lane_.send(parcel);
  }

 private:
  [[nodiscard]] const std::byte* source(std::int64_t row, std::int64_t k0) const {
    return job_.shard.row(row) + static_cast<std::size_t>(k0) * element_;
  }
  [[nodiscard]] std::byte* own(std::size_t offset) const {
    return window_.data(window_.rank()) + offset;
  }
  [[nodiscard]] std::size_t offset(std::int64_t row, std::int64_t k0) const {
    const std::int64_t stage = row / job_.plan.stage_rows();
    return job_.place + job_.ring.offset(stage) +
           static_cast<std::size_t>(row - stage * job_.plan.stage_rows()) * pitch_ +
           static_cast<std::size_t>(k0) * element_;
  }
  [[nodiscard]] std::size_t scale_offset(std::int64_t row) const {
    const std::int64_t stage = row / job_.plan.stage_rows();
    return job_.place + job_.ring.offset(stage) + job_.scales_at +
           static_cast<std::size_t>(row - stage * job_.plan.stage_rows()) * sizeof(float);
  }

  const SendJob& job_;
  int index_;
  transport::Lane& lane_;
  symm::Window& window_;
  std::size_t element_;
  std::size_t pitch_;
};

}  // namespace

Status wait_credit(symm::Window& window, int counter0, int peer, std::uint32_t credit,
                   std::uint64_t call, std::chrono::milliseconds timeout) {
  const int counter = counter0 + peer;
  return window.wait_until(
      counter, credit,
      {.rank = peer, .call = call, .chunk = -1, .expected = credit, .seen = window.read(counter)},
      platform::Deadline::after(timeout));
}

Status send_shard(const SendJob& job, int index, transport::Lane& lane, symm::Window& window,
                  CallHeaders& headers) {
  Sender sender(job, index, lane, window);
  const int ranks = window.size();
  const auto peer_at = [&](int step) { return (window.rank() - step + ranks) % ranks; };
  for (int step = 1; index == 0 && step < ranks; ++step) headers.publish(peer_at(step));

  for (std::int64_t stage = 0; stage < job.plan.stages(); ++stage) {
    // A place that all ranks read is free only when all of them have finished with it.
    for (int step = job.quantises() ? 0 : 1; job.copies_in() && step < ranks; ++step) {
      if (Status status = sender.reserve(stage, peer_at(step)); !status.ok()) return status;
    }
    const std::int64_t begin = job.plan.first_chunk(stage);
    const std::int64_t end = job.plan.first_chunk(stage + 1);
    const std::int64_t first = begin + (index - begin % job.lanes + job.lanes) % job.lanes;
    for (const SendStep& step : job.steps) {
      for (const Destination& to : step) {
        if (job.transfer != Transfer::push || to.peer == window.rank()) continue;
        if (Status status = sender.reserve(stage, to.peer); !status.ok()) return status;
      }
      for (std::int64_t c = first; c < end; c += job.lanes) {
        if (job.copies_in() && &step == &job.steps.front()) sender.copy_in(c);
        for (const Destination& to : step) {
          if (Status status = sender.send(c, to); !status.ok()) return status;
        }
      }
    }
  }
  return lane.flush();
}

}  // namespace tandem::stream
