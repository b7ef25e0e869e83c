// SPDX-License-Identifier: Apache-2.0
//
// RollCall. Messages of a rank come in the order of its rounds, so that a receive per rank and
// round is all there is. A round ends when everything is heard and everything said was taken, so
// that the next one uses the same memory. Start reading at round().
#include "mpi/roll_call.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "mpi/requests.h"
#include "platform/host.h"
#include "platform/park.h"

namespace tandem::mpi {
namespace {

constexpr std::uint64_t kMagic = 0x334c4c4f524e4154ULL;  // "TANROLL3" in memory

using platform::Clock;
using std::chrono::microseconds;

/// Ranks that come together meet in microseconds; later a look costs more than it tells.
constexpr std::chrono::milliseconds kEager{2};
constexpr microseconds kPatient{200};

std::uint64_t bit(int rank) { return std::uint64_t{1} << rank; }

/// "rank 2 (host alpha) and rank 5".
std::string list(const RollCall& roll, std::uint64_t ranks) {
  std::string text;
  for (int r = 0; r < roll.size(); ++r) {
    if ((ranks & bit(r)) == 0) continue;
    const bool last = (ranks >> r) == 1;
    text += fmt::format("{}{}", text.empty() ? "" : last ? " and " : ", ", roll.name(r));
  }
  return text;
}

bool ended(std::span<const MPI_Request> requests) {
  return std::all_of(requests.begin(), requests.end(),
                     [](MPI_Request request) { return request == MPI_REQUEST_NULL; });
}

}  // namespace

/// Plain bytes of one layout.
struct RollCall::Message {
  std::uint64_t magic = kMagic;
  std::uint32_t attempt = 0, round = 0;
  char host[64] = {};
  std::uint64_t bytes = 0;
  std::byte said[kMostBytes] = {};
};

/// All by rank.
struct RollCall::Mail {
  explicit Mail(int size)
      : messages(static_cast<std::size_t>(size)),
        requests(2 * messages.size(), MPI_REQUEST_NULL),
        receives(std::span(requests).first(messages.size())),
        sends(std::span(requests).last(messages.size())) {}
  std::vector<Message> messages;
  std::vector<MPI_Request> requests;
  const std::span<MPI_Request> receives, sends;
};

RollCall::RollCall(MPI_Comm comm, int tag, std::uint32_t attempt, platform::Deadline deadline,
                   AbortChannel& abort)
    : comm_(comm), tag_(tag), attempt_(attempt), deadline_(deadline), abort_(abort) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
  mail_ = std::make_unique<Mail>(size_);
  Message& own = mail_->messages[static_cast<std::size_t>(rank_)];
  own.attempt = attempt_;
  const std::string host = platform::host_name();
  std::memcpy(own.host, host.data(), std::min(host.size(), sizeof own.host - 1));
}

RollCall::~RollCall() {
  if (!finish()) (void)mail_.release();
}

bool RollCall::finish() {
  // Sends end when MPI has taken them, as a rule at once; receives are left only by a failed round.
  for (MPI_Request& request : mail_->receives) {
    if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
  }
  return end_soon(mail_->requests);
}

std::string RollCall::name(int rank) const {
  const char* const host = mail_->messages[static_cast<std::size_t>(rank)].host;
  return *host == 0 ? fmt::format("rank {}", rank) : fmt::format("rank {} (host {})", rank, host);
}

std::span<const std::byte> RollCall::said(int rank) const {
  const Message& message = mail_->messages[static_cast<std::size_t>(rank)];
  return std::span(message.said).first(message.bytes);
}

Status RollCall::heard() const {
  const auto abort = abort_.heard();
  if (!abort.ok()) return abort.status();
  if (!abort->has_value()) return {};
  const auto& [rank, why] = **abort;
  abort_.settle();  // all hear it from that rank
  std::string text = fmt::format("{} gave up: {}", name(rank), why.message());
  return why.wait() ? Status(why.code(), std::move(text), *why.wait())
                    : Status(why.code(), std::move(text));
}

Status RollCall::send_all(std::span<const std::byte> own) {
  Message& message = mail_->messages[static_cast<std::size_t>(rank_)];
  message.round = round_;
  message.bytes = own.size();
  std::copy(own.begin(), own.end(), message.said);
  for (int step = 1; step < size_; ++step) {
    const int peer = (rank_ + step) % size_;
    Status sent = check(MPI_Isend(&message, sizeof message, MPI_BYTE, peer, tag_, comm_,
                                  &mail_->sends[static_cast<std::size_t>(peer)]),
                        "send");
    if (!sent.ok()) return sent;
  }
  return {};
}

Status RollCall::listen(int peer) {
  const auto at = static_cast<std::size_t>(peer);
  return check(MPI_Irecv(&mail_->messages[at], sizeof(Message), MPI_BYTE, peer, tag_, comm_,
                         &mail_->receives[at]),
               "receive");
}

Status RollCall::hear(int peer, int bytes) {
  Message& message = mail_->messages[static_cast<std::size_t>(peer)];
  message.host[sizeof message.host - 1] = 0;
  if (bytes != sizeof message || message.magic != kMagic || message.bytes > kMostBytes) {
    message = {};
    return {StatusCode::kMismatch,
            fmt::format("rank {} sent what this rank does not understand: it runs another version "
                        "of Tandem, or has another byte order, or the program itself uses the tag "
                        "{} on this communicator; install one version on all machines",
                        peer, tag_)};
  }
  if (message.attempt < attempt_) return listen(peer);  // of a call that has ended here, without it
  if (message.attempt == attempt_ && message.round == round_) return {};
  return {StatusCode::kMismatch,
          fmt::format("{} has called make_world() more often on this communicator than rank {}; "
                      "every call must be made by all ranks",
                      name(peer), rank_)};
}

Result<bool> RollCall::progress() {
  for (int r = 0; r < size_; ++r) {
    MPI_Request& receive = mail_->receives[static_cast<std::size_t>(r)];
    int done = 0, bytes = 0;
    MPI_Status status;
    while (receive != MPI_REQUEST_NULL) {
      Status s = check(MPI_Test(&receive, &done, &status), "receive");
      if (s.ok() && done == 0) break;
      if (s.ok()) MPI_Get_count(&status, MPI_BYTE, &bytes);
      if (s.ok()) s = hear(r, bytes);
      if (!s.ok()) return s;
    }
  }
  int sent = 0;
  Status s = check(MPI_Testall(size_, mail_->sends.data(), &sent, MPI_STATUSES_IGNORE), "send");
  if (!s.ok()) return s;
  return sent != 0 && ended(mail_->receives);
}

Status RollCall::timed_out(std::string_view what) const {
  std::uint64_t missing = 0;
  for (int r = 0; r < size_; ++r) {
    const auto at = static_cast<std::size_t>(r);
    if (mail_->receives[at] != MPI_REQUEST_NULL || mail_->sends[at] != MPI_REQUEST_NULL) {
      missing |= bit(r);
    }
  }
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - size_);
  const std::uint64_t came = all & ~missing & ~bit(rank_);
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
    if (r == rank_) continue;
    if (Status s = listen(r); !s.ok()) return s;
  }
  if (Status s = send_all(own); !s.ok()) return s;
  const Clock::time_point began = Clock::now();
  for (;;) {
    // What has come by the deadline counts, also where this thread had no core.
    const bool last = deadline_.passed();
    const Result<bool> complete = progress();
    if (!complete.ok()) return complete.status();
    if (*complete) return {};
    if (Status s = heard(); !s.ok()) return s;
    if (last) return timed_out(what);
    if (Status s = meanwhile ? meanwhile() : Status(); !s.ok()) return s;
    if (Clock::now() - began < kEager) {
      std::this_thread::yield();
    } else {
      platform::sleep_until(deadline_.or_before(Clock::now() + kPatient));
    }
  }
}

}  // namespace tandem::mpi
