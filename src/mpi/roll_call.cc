// SPDX-License-Identifier: Apache-2.0
//
// RollCall. Messages of a rank come in the order of its rounds, so that a receive per rank and
// round is all there is. Start reading at round().
#include "mpi/roll_call.h"

#include <algorithm>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "platform/host.h"
#include "platform/park.h"

namespace tandem::mpi {
namespace {

constexpr std::uint64_t kMagic = 0x324c4c4f524e4154ULL;  // "TANROLL2" in memory

using platform::Clock;
using std::chrono::microseconds;

/// Ranks that come together meet in microseconds; later a look costs more than it tells.
constexpr std::chrono::milliseconds kEager{2};
constexpr microseconds kPatient{200};

std::uint64_t bit(int rank) { return std::uint64_t{1} << rank; }

/// As in "ranks 2 and 5". The remedy of the reader begins with a name.
std::string list(const RollCall& roll, std::uint64_t ranks) {
  std::string text;
  for (int r = 0; r < roll.size(); ++r) {
    if ((ranks & bit(r)) == 0) continue;
    const bool last = (ranks >> r) == 1;
    text += fmt::format("{}{}", text.empty() ? "" : last ? " and " : ", ", roll.name(r));
  }
  return text;
}

struct Verdict {
  std::int32_t code = 0;
  std::uint32_t length = 0;
  char words[RollCall::kMostBytes - 8] = {};
};

}  // namespace

/// Plain bytes of one layout.
struct RollCall::Message {
  std::uint64_t magic = kMagic;
  std::uint32_t attempt = 0, round = 0;
  std::uint64_t missing = 0;  ///< ranks without which the sender gives up; 0 = it does not
  char host[64] = {};
  std::uint64_t bytes = 0;
  std::byte said[kMostBytes] = {};
};

RollCall::RollCall(MPI_Comm comm, int tag, std::uint32_t attempt, platform::Deadline deadline)
    : tag_(tag),
      attempt_(attempt),
      deadline_(deadline),
      host_(platform::host_name()),
      requests_(comm) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
  peers_.resize(static_cast<std::size_t>(size_));
  peers_[static_cast<std::size_t>(rank_)].host = host_;
}

RollCall::~RollCall() { (void)finish(); }

bool RollCall::finish() {
  // Sends end when MPI has taken them, as a rule at once; receives are left only by a failed round.
  return requests_.empty() || requests_.withdraw();
}

std::string RollCall::name(int rank) const {
  const std::string& host = peers_[static_cast<std::size_t>(rank)].host;
  return host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} (host {})", rank, host);
}

Status RollCall::send_all(std::uint64_t missing, std::span<const std::byte> said) {
  const auto message = std::make_shared<Message>();
  message->attempt = attempt_;
  message->round = round_;
  message->missing = missing;
  std::memcpy(message->host, host_.data(), std::min(host_.size(), sizeof message->host - 1));
  message->bytes = said.size();
  std::copy(said.begin(), said.end(), message->said);
  for (int step = 1; step < size_; ++step) {
    const int peer = (rank_ + step) % size_;
    Status sent = requests_.send(message.get(), sizeof *message, peer, tag_, [message](int) {});
    if (!sent.ok()) return sent;
  }
  return {};
}

Status RollCall::listen(int peer) {
  const auto message = std::make_shared<Message>();
  return requests_.receive(message.get(), sizeof *message, peer, tag_,
                           [this, peer, message](int bytes) { hear(peer, *message, bytes); });
}

void RollCall::hear(int peer, const Message& message, int bytes) {
  if (bytes != sizeof message || message.magic != kMagic || message.bytes > kMostBytes) {
    broken_ = {
        StatusCode::kMismatch,
        fmt::format("rank {} sent what this rank does not understand: it runs another version "
                    "of Tandem, or has another byte order, or the program itself uses the tag "
                    "{} on this communicator; install one version on all machines",
                    peer, tag_)};
    return;
  }
  Peer& of = peers_[static_cast<std::size_t>(peer)];
  of.host.assign(message.host, strnlen(message.host, sizeof message.host));
  if (message.attempt < attempt_) {
    broken_ = listen(peer);  // of a call that has ended here, without it
  } else if (message.missing != 0) {
    broken_ = {
        StatusCode::kTimeout,
        fmt::format("{} gave up: it had waited in vain for {}; call make_world() on all ranks "
                    "at about the same time, or allow more time (WorldOptions.timeout)",
                    name(peer), list(*this, message.missing))};
  } else if (message.attempt != attempt_ || message.round != round_) {
    broken_ = {
        StatusCode::kMismatch,
        fmt::format("{} has called make_world() more often on this communicator than rank {}; "
                    "every call must be made by all ranks",
                    name(peer), rank_)};
  } else {
    of.said.assign(message.said, message.said + message.bytes);
    of.here = true;
  }
}

Status RollCall::give_up(std::string_view what) {
  std::uint64_t missing = 0, came = 0;
  for (int r = 0; r < size_; ++r) {
    const Peer& peer = peers_[static_cast<std::size_t>(r)];
    if (!peer.here) missing |= bit(r);
    if (peer.here && r != rank_) came |= bit(r);
  }
  (void)send_all(missing, {});
  (void)requests_.poll();
  const auto waited =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start_).count();
  return {
      StatusCode::kTimeout,
      fmt::format(
          "{} waited {} ms for {} to {}{}{}: late, or ended, or no network that MPI uses carries "
          "between those hosts and this one (interfaces here: {}); look at those ranks, call "
          "make_world() on all at about the same time, allow more time "
          "(WorldOptions.timeout), or name the network to MPI (mpirun --mca btl_tcp_if_include "
          "NETWORK, or MPICH's FI_TCP_IFACE)",
          name(rank_), waited, list(*this, missing), what, came == 0 ? "" : ", as did ",
          list(*this, came), platform::network_interfaces())};
}

Status RollCall::round(std::string_view what, std::span<const std::byte> own,
                       const Meanwhile& meanwhile) {
  ++round_;
  for (int r = 0; r < size_; ++r) {
    Peer& peer = peers_[static_cast<std::size_t>(r)];
    peer.here = r == rank_;
    if (r == rank_) peer.said.assign(own.begin(), own.end());
    if (r == rank_) continue;
    if (Status s = listen(r); !s.ok()) return s;
  }
  if (Status s = send_all(0, own); !s.ok()) return s;
  const Clock::time_point began = Clock::now();
  for (;;) {
    // What has come by the deadline counts, also where this thread had no core.
    const bool last = deadline_.passed();
    if (const Result<int> ended = requests_.poll(); !ended.ok()) return ended.status();
    if (!broken_.ok()) return broken_;
    if (std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.here; })) return {};
    if (last) return give_up(what);
    if (Status s = meanwhile ? meanwhile() : Status(); !s.ok()) return s;
    if (Clock::now() - began < kEager) {
      std::this_thread::yield();
    } else {
      platform::sleep_until(deadline_.or_before(Clock::now() + kPatient));
    }
  }
}

Status RollCall::agree(std::string_view what, const Status& own, const Meanwhile& meanwhile) {
  Verdict verdict{.code = static_cast<std::int32_t>(own.code())};
  verdict.length = static_cast<std::uint32_t>(std::min(own.message().size(), sizeof verdict.words));
  std::memcpy(verdict.words, own.message().data(), verdict.length);
  const auto all = gather(what, verdict, meanwhile);
  if (!own.ok()) return own;
  if (!all.ok()) return all.status();
  for (int r = 0; r < size_; ++r) {
    const Verdict& other = (*all)[static_cast<std::size_t>(r)];
    if (other.code == 0) continue;
    const bool known = other.code > 0 && other.code <= static_cast<int>(StatusCode::kInternal);
    const std::string_view words(other.words,
                                 std::min<std::size_t>(other.length, sizeof other.words));
    return {known ? static_cast<StatusCode>(other.code) : StatusCode::kInternal,
            fmt::format("{} could not {}: {}", name(r), what, words)};
  }
  return {};
}

}  // namespace tandem::mpi
