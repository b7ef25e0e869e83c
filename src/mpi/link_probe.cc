// SPDX-License-Identifier: Apache-2.0
//
// Ping-pong between the lowest ranks of two machines.
#include "mpi/link_probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "mpi/requests.h"

namespace tandem::mpi {
namespace {

constexpr int kPings = 8;
/// Long enough for the rate to show behind a shaper's burst.
constexpr int kShort = 64 << 10, kLong = 2 << 20;
/// Where the short message takes this long, it says enough.
constexpr double kSlow = 0.02;

/// Messages between two ranks, each awaited until the deadline.
class PingPong {
 public:
  PingPong(const RollCall& roll, MPI_Comm comm)
      : roll_(roll),
        requests_(comm),
        out_(std::make_shared<std::vector<char>>(kLong)),
        in_(std::make_shared<std::vector<char>>(kLong)) {}
  ~PingPong() { (void)requests_.withdraw(); }
  PingPong(const PingPong&) = delete;
  PingPong& operator=(const PingPong&) = delete;

  /// Seconds from sending `bytes` to the other's one-byte answer.
  Result<double> round_trip(int peer, int bytes) {
    const double start = MPI_Wtime();
    Status done = send(peer, bytes);
    if (done.ok()) done = receive(peer).status();
    if (!done.ok()) return done;
    return MPI_Wtime() - start;
  }

  /// The other side: answers messages until an empty one.
  Status answer(int peer) {
    for (;;) {
      const auto bytes = receive(peer);
      if (!bytes.ok() || *bytes == 0) return bytes.status();
      if (Status s = send(peer, 1); !s.ok()) return s;
    }
  }

  Status send(int peer, int bytes) {
    bool ended = false;
    Status s = requests_.send(out_->data(), bytes, peer, kProbe,
                              [&ended, buffer = out_](int) { ended = true; });
    return s.ok() ? wait(ended, peer) : s;
  }

 private:
  Result<int> receive(int peer) {
    bool ended = false;
    int length = 0;
    Status s = requests_.receive(in_->data(), kLong, peer, kProbe,
                                 [&ended, &length, buffer = in_](int bytes) {
                                   length = bytes;
                                   ended = true;
                                 });
    if (s.ok()) s = wait(ended, peer);
    if (!s.ok()) return s;
    return length;
  }

  /// After an error the operation never ends here: nobody polls again.
  Status wait(const bool& ended, int peer) {
    while (!ended) {
      const bool last = roll_.deadline().passed();
      if (const Result<int> done = requests_.poll(); !done.ok()) return done.status();
      if (ended) break;
      if (Status s = roll_.heard(); !s.ok()) return s;
      if (last) {
        return {StatusCode::kTimeout,
                fmt::format("{} did not answer {} while the network between their machines was "
                            "measured; find out whether that stalls, or allow more time "
                            "(WorldOptions.timeout)",
                            roll_.name(peer), roll_.name(roll_.rank()))};
      }
      std::this_thread::yield();
    }
    return {};
  }

  const RollCall& roll_;
  Requests requests_;
  std::shared_ptr<std::vector<char>> out_, in_;
};

/// Round trip, and seconds per byte.
using Measured = std::array<double, 2>;

Result<Measured> measure(PingPong& link, int peer) {
  // An error is kept and no more is sent: what follows is of no account.
  Status failed;
  const auto trip = [&](int bytes) {
    if (!failed.ok()) return 0.0;
    const Result<double> took = link.round_trip(peer, bytes);
    failed = took.status();
    return took.ok() ? *took : 0.0;
  };
  double ping = trip(1);
  for (int i = 1; i < kPings; ++i) ping = std::min(ping, trip(1));
  double took = trip(kShort), bytes = kShort;
  if (took < kSlow) {
    (void)trip(kLong);  // opens TCP's window
    took = trip(kLong);
    bytes = kLong;
  }
  if (failed.ok()) failed = link.send(peer, 0);
  if (!failed.ok()) return failed;
  return Measured{ping, std::max(took - ping, took / 10) / bytes};
}

}  // namespace

Result<Link> probe_link(RollCall& roll, MPI_Comm comm, const symm::Machines& machines) {
  Status done;
  Measured slowest{0, 0};
  {
    PingPong link(roll, comm);
    for (int m = 1; m < machines.count() && done.ok(); ++m) {
      const int peer = machines.ranks(m).front();
      if (roll.rank() == peer) done = link.answer(0);
      if (roll.rank() != 0) continue;
      const auto measured = measure(link, peer);
      done = measured.status();
      for (std::size_t i = 0; done.ok() && i < slowest.size(); ++i) {
        slowest[i] = std::max(slowest[i], (*measured)[i]);
      }
    }
  }
  if (Status s = roll.agree("measure the network", done); !s.ok()) return s;
  const auto all = roll.gather("hear what the network is like", slowest);
  if (!all.ok()) return all.status();
  const auto [ping, seconds_per_byte] = all->front();
  Link link;
  if (seconds_per_byte > 0) link.bytes_per_second = 1 / seconds_per_byte;
  link.latency = std::chrono::nanoseconds(static_cast<std::int64_t>(ping / 2 * 1e9));
  return link;
}

}  // namespace tandem::mpi
