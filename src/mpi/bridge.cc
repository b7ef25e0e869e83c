// SPDX-License-Identifier: Apache-2.0
//
// Bridge. Start reading at serve().
#include "mpi/bridge.h"

#include <algorithm>

#include "base/guarded.h"

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

/// Between two looks whether other ranks of this machine still live: as waiting ranks look.
constexpr std::chrono::milliseconds kNeighbours{50};

/// How long the last rank of a machine serves others that have not left.
constexpr std::chrono::seconds kLastWords{2};
/// How long one that leaves waits for others to take what it said. Who lives takes it at once; a
/// rank of another machine that has died never does, and nobody here may know.
constexpr std::chrono::seconds kUntaken{10};
/// How long a failure may take to be sent.
constexpr std::chrono::milliseconds kBreakingOff{500};

}  // namespace

Result<std::shared_ptr<Bridge>> Bridge::start(MPI_Comm comm, const symm::Machines& machines,
                                              int rank, std::shared_ptr<symm::Inbox> inbox,
                                              const Settings& settings) {
  std::shared_ptr<Bridge> self(new Bridge(comm, machines, rank, std::move(inbox), settings));
  auto thread = platform::Team::create(1, "tandem-mpi", platform::Spin{}, platform::Pace::brief);
  if (!thread.ok()) return thread.status();
  // MPI_Finalize() first deletes the attributes of MPI_COMM_SELF, while everything of MPI still
  // works.
  Status attached =
      check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &self->keyval_, nullptr),
            "make an attribute");
  if (attached.ok()) {
    attached =
        check(MPI_Comm_set_attr(MPI_COMM_SELF, self->keyval_, self.get()), "set an attribute");
  }
  if (!attached.ok()) return attached;
  thread.value()->start(1, [bridge = self.get()](int) {
    bridge->serve();
    return Status();
  });
  self->thread_ = std::move(thread).value();
  return self;
}

Bridge::Bridge(MPI_Comm comm, const symm::Machines& machines, int rank,
               std::shared_ptr<symm::Inbox> inbox, const Settings& settings)
    : comm_(comm), inbox_(std::move(inbox)), settings_(settings), requests_(comm) {
  for (int m = 0; m < machines.count(); ++m) {
    outgoing_.push_back(
        m == machines.own()
            ? nullptr
            : std::make_unique<Outgoing>(comm, machines.receiver(m, rank), settings.sizes));
    for (int source : machines.ranks(m)) {
      if (m == machines.own() || machines.receiver(machines.own(), source) != rank) continue;
      incoming_.push_back(std::make_unique<Incoming>(source, settings.sizes.piece));
    }
  }
}

Bridge::~Bridge() {
  finish();
  if (keyval_ == MPI_KEYVAL_INVALID) return;
  // Only now: MPI may hold a lock while it calls back.
  MPI_Comm_delete_attr(MPI_COMM_SELF, keyval_);
  MPI_Comm_free_keyval(&keyval_);
}

int Bridge::at_finalize(MPI_Comm, int, void* bridge, void*) {
  auto* const self = static_cast<Bridge*>(bridge);
  if (!self->thread_) return MPI_SUCCESS;  // the destructor's turn
  (void)base::guarded([&] {
    self->inbox_->leave([&](const symm::Note& note, std::span<const std::byte> text) {
      self->tell_all(note, text);
    });
    return Status();
  });
  self->finish();
  self->keyval_ = MPI_KEYVAL_INVALID;
  return MPI_SUCCESS;
}

void Bridge::finish() {
  if (!thread_) return;  // never started, or ended in MPI_Finalize()
  farewell_from_ = Clock::now();
  farewell_until_ = platform::Deadline::after(settings_.farewell).moment();
  // Release: pairs with the acquire in finished().
  ending_.store(true, std::memory_order_release);
  wake();
  (void)thread_->join();
  thread_.reset();
  // What a rank that has not left still sends lies in MPI, and would be taken for a message of the
  // next communicator that gets this one's place: then this one stays.
  if (clean_ && inbox_->sources_left()) MPI_Comm_free(&comm_);
}

void Bridge::tell(int machine, symm::Note note, std::span<const std::byte> text) {
  // Relaxed: a moment later the queue would only not be sent.
  if (ended_.load(std::memory_order_relaxed)) return;
  outgoing_[static_cast<std::size_t>(machine)]->tell(note, text);
  wake();
}

void Bridge::tell_all(const symm::Note& note, std::span<const std::byte> text) {
  for (const auto& outgoing : outgoing_) {
    if (outgoing) outgoing->tell(note, text);
  }
}

void Bridge::ship(int machine, const symm::Cargo& cargo, symm::CargoSource source) {
  if (ended_.load(std::memory_order_relaxed)) return;
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
  const Status served = base::guarded([&] { return serve_until_finished(); });
  if (served.ok()) {
    clean_ = requests_.withdraw();
  } else {
    clean_ = false;
    break_off(served);
  }
  ended_.store(true, std::memory_order_relaxed);
}

Status Bridge::serve_until_finished() {
  Clock::time_point last_event = Clock::now();
  Clock::time_point next_look = last_event;
  while (!finished()) {
    if (const auto now = Clock::now(); now >= next_look) {
      next_look = now + kNeighbours;
      inbox_->report_dead([this](const symm::Note& note, std::span<const std::byte> text) {
        tell_all(note, text);
      });
    }
    const std::uint32_t before = calls_.load(std::memory_order_seq_cst);
    const Result<bool> worked = work();
    if (!worked.ok()) return worked.status();
    if (*worked || calls_.load(std::memory_order_seq_cst) != before) {
      last_event = Clock::now();
    } else {
      nap(last_event, before);
    }
  }
  return {};
}

void Bridge::break_off(const Status& failure) noexcept {
  inbox_->fail(failure);
  const auto deadline = platform::Deadline::after(kBreakingOff);
  for (const auto& outgoing : outgoing_) {
    if (outgoing) outgoing->break_off(failure);
  }
  // Sent with the first look, as a rule: the messages are short.
  const auto sent = [](const auto& outgoing) { return !outgoing || outgoing->last_words_sent(); };
  while (!std::all_of(outgoing_.begin(), outgoing_.end(), sent) && !deadline.passed()) {
    platform::sleep_until(Clock::now() + kFreeCore);
  }
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
  const bool sent = std::all_of(outgoing_.begin(), outgoing_.end(), [&](const auto& outgoing) {
    return !outgoing || outgoing->idle() || inbox_->ended(outgoing->receiver());
  });
  // Where the world has failed, somebody may have ceased to listen for good.
  const std::chrono::seconds patience = inbox_->failed() ? kLastWords : kUntaken;
  const bool untaken = !sent && Clock::now() <= farewell_from_ + patience;
  if (untaken || !inbox_->alone()) return false;
  // The others' last words, and cargo of a call that failed, still find somebody for a while: they
  // could not end before we have taken it.
  return inbox_->sources_left() || Clock::now() > farewell_from_ + kLastWords;
}

}  // namespace tandem::mpi
