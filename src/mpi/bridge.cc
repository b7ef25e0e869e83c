// SPDX-License-Identifier: Apache-2.0
//
// Bridge. Start reading at serve().
#include "mpi/bridge.h"

#include <algorithm>

namespace tandem::mpi {
namespace {

using platform::Clock;
using std::chrono::microseconds;

/// Between two looks at the network while a core is free for them...
constexpr microseconds kFreeCore{20};
/// ...and while all cores compute. Then each look costs one of them some microseconds, a change of
/// threads, and what lies in its caches, and nobody is waiting: until the next look the kernel's
/// buffers do. Measured: docs/clusters.md.
constexpr microseconds kBusyCores{800};
/// MPI may end a look after one message of a connection, of which it has seen a part only. Nobody
/// is told of that, so a look asks again this often before it believes that nothing happens.
constexpr int kTestsPerLook = 4;
/// When nothing has happened for a while, a look costs an eighth of that while in delay...
constexpr int kSilenceShare = 8;
/// ...and at most this.
constexpr microseconds kLongest{2000};

/// How long the last rank of a machine serves others that have not left.
constexpr std::chrono::seconds kLastWords{2};

}  // namespace

Result<std::shared_ptr<Bridge>> Bridge::start(MPI_Comm comm, const symm::Machines& machines,
                                              int rank, std::shared_ptr<symm::Inbox> inbox,
                                              const Settings& settings) {
  std::shared_ptr<Bridge> self(new Bridge(comm, machines, rank, std::move(inbox), settings));
  auto thread = platform::Team::create(1, "tandem-mpi", platform::Spin{}, platform::Pace::brief);
  if (!thread.ok()) return thread.status();
  self->thread_ = std::move(thread).value();
  self->thread_->start(1, [bridge = self.get()](int) {
    bridge->serve();
    return Status();
  });
  return self;
}

Bridge::Bridge(MPI_Comm comm, const symm::Machines& machines, int rank,
               std::shared_ptr<symm::Inbox> inbox, const Settings& settings)
    : comm_(comm), inbox_(std::move(inbox)), settings_(settings), requests_(comm) {
  for (int m = 0; m < machines.count(); ++m) {
    outgoing_.push_back(m == machines.own() ? nullptr
                                            : std::make_unique<Outgoing>(machines.receiver(m, rank),
                                                                         settings.sizes));
    for (int source : machines.ranks(m)) {
      if (m == machines.own() || machines.receiver(machines.own(), source) != rank) continue;
      incoming_.push_back(std::make_unique<Incoming>(source, settings.sizes.piece));
    }
  }
}

Bridge::~Bridge() {
  if (!thread_) return;  // never started
  farewell_from_ = Clock::now();
  farewell_until_ = platform::Deadline::after(settings_.farewell).moment();
  // Release: pairs with the acquire in finished().
  ending_.store(true, std::memory_order_release);
  wake();
  (void)thread_->join();
  if (clean_) {
    MPI_Comm_free(&comm_);
  } else {
    // MPI may still write where it was told to: that memory stays.
    new std::shared_ptr<symm::Inbox>(inbox_);
    for (auto& incoming : incoming_) (void)incoming.release();
    for (auto& outgoing : outgoing_) (void)outgoing.release();
  }
}

void Bridge::tell(int machine, symm::Note note, std::span<const std::byte> text) {
  outgoing_[static_cast<std::size_t>(machine)]->tell(note, text);
  wake();
}

void Bridge::ship(int machine, const symm::Cargo& cargo, symm::CargoSource source) {
  outgoing_[static_cast<std::size_t>(machine)]->ship(cargo, std::move(source));
  wake();
}

void Bridge::wake() {
  // seq_cst, as asleep_ and calls_ in nap(): either this sees the nap, or the nap sees the call.
  calls_.fetch_add(1, std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst)) platform::unpark_all(calls_);
}

void Bridge::core_freed(int threads) {
  // Relaxed: a knob; wake() makes the thread look at it again.
  free_cores_.fetch_add(threads, std::memory_order_relaxed);
  if (threads > 0) wake();
}

void Bridge::serve() {
  Clock::time_point last_event = Clock::now();
  while (!finished()) {
    const std::uint32_t before = calls_.load(std::memory_order_seq_cst);
    const Result<bool> worked = work();
    if (!worked.ok()) {
      inbox_->fail(worked.status());
      clean_ = false;
      return;
    }
    if (*worked || calls_.load(std::memory_order_seq_cst) != before) {
      last_event = Clock::now();
    } else {
      nap(last_event, before);
    }
  }
  clean_ = requests_.withdraw();
}

Result<bool> Bridge::work() {
  bool any = false;
  for (const auto& outgoing : outgoing_) {
    if (!outgoing) continue;
    const Result<bool> sent = outgoing->post(requests_, *inbox_);
    if (!sent.ok()) return sent;
    any = any || *sent;
  }
  for (const auto& incoming : incoming_) {
    if (Status s = incoming->post(requests_, *inbox_); !s.ok()) return s;
  }
  for (int test = 0; test < kTestsPerLook; ++test) {
    const Result<int> ended = requests_.poll();
    if (!ended.ok()) return ended.status();
    if (*ended > 0) return true;
  }
  return any;
}

void Bridge::nap(Clock::time_point last_event, std::uint32_t calls) {
  const bool free_core = core_to_spare_.load(std::memory_order_relaxed) ||
                         free_cores_.load(std::memory_order_relaxed) > 0;
  const auto silence = std::chrono::duration_cast<microseconds>(Clock::now() - last_event);
  const microseconds length =
      std::clamp(silence / kSilenceShare, free_core ? kFreeCore : kBusyCores, kLongest);
  asleep_.store(true, std::memory_order_seq_cst);
  platform::park(calls_, calls, length);
  asleep_.store(false, std::memory_order_relaxed);
}

bool Bridge::finished() {
  if (!ending_.load(std::memory_order_acquire)) return false;
  if (Clock::now() >= farewell_until_) return true;
  const bool sent = std::all_of(outgoing_.begin(), outgoing_.end(),
                                [](const auto& outgoing) { return !outgoing || outgoing->idle(); });
  if (!sent || !inbox_->alone()) return false;
  // The others' last words, and cargo of a call that failed, still find somebody for a while: they
  // could not end before we have taken it.
  return inbox_->sources_left() || Clock::now() > farewell_from_ + kLastWords;
}

}  // namespace tandem::mpi
