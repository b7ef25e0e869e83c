// SPDX-License-Identifier: Apache-2.0
//
// MemoryPromise over one sum per process. make() shows the promise before it looks at those of
// others: two that do so at the same moment see each other, so that never both are granted what
// only one can have. The lock across processes only keeps them from both being refused; a process
// that is stopped while it holds it delays the others by kLockWait and harms nothing.
//
// Others' promises are read before what is available: memory that is touched in between is then
// counted twice, never not at all.
#include "platform/memory_promise.h"

#include <cerrno>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <fcntl.h>
#include <sys/random.h>

#include "platform/deadline.h"
#include "platform/delay.h"
#include "platform/park.h"
#include "platform/process.h"

namespace tandem::platform {
namespace {

// Held for as long as it takes to read a few files in /proc: 0.1 ms.
constexpr std::chrono::seconds kLockWait{1};
constexpr std::chrono::microseconds kLockPoll{100};

/// The lock of a byte of an open file description, held until the end of the block; the kernel
/// drops it when the process ends. Not held after kLockWait, or where the kernel refuses it.
class ByteLock {
 public:
  ByteLock(int file, int byte) : file_(file), byte_(byte) {
    const Deadline deadline = Deadline::after(kLockWait);
    while (!(held_ = set(F_WRLCK)) && (errno == EAGAIN || errno == EACCES || errno == EINTR) &&
           !deadline.passed()) {
      sleep_until(Clock::now() + kLockPoll);
    }
  }
  ~ByteLock() {
    if (held_) set(F_UNLCK);
  }
  ByteLock(const ByteLock&) = delete;
  ByteLock& operator=(const ByteLock&) = delete;

 private:
  bool set(short type) const {
    struct flock lock {};  // l_pid must be zero for locks of open file descriptions
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = byte_;
    lock.l_len = 1;
    return fcntl(file_, F_OFD_SETLK, &lock) == 0;
  }
  const int file_, byte_;
  bool held_ = false;
};

std::uint64_t sum_of(std::uint64_t a, std::uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;  // shared words may hold anything
}

/// This process's promises. A forked child has none, and gets one of these for itself.
struct Ledger {
  explicit Ledger(int process) : owner(process) {
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number) {
      number = static_cast<std::uint64_t>(process);
    }
    number |= 1;  // 0 is nobody
  }
  const int owner;
  std::uint64_t number =
      0;             ///< by which it is known in shared words: process ids are per namespace
  std::mutex mutex;  // guards all that follows, and the order of grants
  std::uint64_t promised = 0;
  std::vector<SharedPromises> shared;

  /// Shows `promised` to the others. seq_cst: pairs with the loads in promised_by_others(); of two
  /// processes that each store and then look, at least one sees the other.
  void show() {
    for (const SharedPromises& place : shared) {
      own_words(place).bytes.store(promised, std::memory_order_seq_cst);
    }
  }
  static PromisedWords& own_words(const SharedPromises& place) {
    return place.words[static_cast<std::size_t>(place.own)];
  }
  [[nodiscard]] std::uint64_t promised_by_others() const;
};

/// A process may be met in several worlds, and in several places of one: it counts once.
std::uint64_t Ledger::promised_by_others() const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;  // process, bytes
  for (const SharedPromises& place : shared) {
    for (std::size_t r = 0; r < place.words.size(); ++r) {
      const std::uint64_t process = place.words[r].process.load(std::memory_order_seq_cst);
      const std::uint64_t bytes = place.words[r].bytes.load(std::memory_order_seq_cst);
      if (process == 0 || process == number || bytes == 0) continue;
      if (!place.alive(static_cast<int>(r))) continue;
      const auto known = std::find_if(seen.begin(), seen.end(),
                                      [&](const auto& entry) { return entry.first == process; });
      if (known == seen.end()) {
        seen.emplace_back(process, bytes);
      } else {
        known->second = std::max(known->second, bytes);
      }
    }
  }
  std::uint64_t sum = 0;
  for (const auto& [process, bytes] : seen) sum = sum_of(sum, bytes);
  return sum;
}

/// Shows a promise of `bytes` for as long as it is asked whether it can be had, and for good when
/// granted.
class Asking {
 public:
  Asking(Ledger& own, std::uint64_t bytes) : own_(own), before_(own.promised) {
    own_.promised = sum_of(before_, bytes);
    own_.show();
  }
  ~Asking() {
    if (granted_) return;
    own_.promised = before_;
    own_.show();
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
  [[nodiscard]] std::uint64_t before() const { return before_; }
  void grant() { granted_ = true; }

 private:
  Ledger& own_;
  const std::uint64_t before_;
  bool granted_ = false;
};

/// Never freed: promises of static duration outlive every other end. A child leaves its parent's
/// alone, whose mutex may have been held by a thread that the child does not have.
std::atomic<Ledger*> current_ledger{nullptr};

/// This process's, null before it has one.
Ledger* known_ledger() {
  // Acquire: pairs with the release in ledger(), so that it is seen whole.
  Ledger* known = current_ledger.load(std::memory_order_acquire);
  return known != nullptr && known->owner == process_id() ? known : nullptr;
}

Ledger& ledger() {
  Ledger* before = current_ledger.load(std::memory_order_acquire);
  while (known_ledger() == nullptr) {
    auto made = std::make_unique<Ledger>(process_id());
    if (current_ledger.compare_exchange_strong(before, made.get(), std::memory_order_acq_rel)) {
      (void)made.release();
    }
  }
  return *known_ledger();
}

}  // namespace

PromiseSharing::PromiseSharing(SharedPromises where) : own_words_(&Ledger::own_words(where)) {
  Ledger& own = ledger();
  const std::lock_guard lock(own.mutex);
  PromisedWords& words = Ledger::own_words(where);
  own.shared.push_back(std::move(where));
  words.bytes.store(own.promised, std::memory_order_seq_cst);
  words.process.store(own.number, std::memory_order_seq_cst);
}

PromiseSharing::~PromiseSharing() {
  Ledger* const own = known_ledger();
  if (own == nullptr) return;  // a forked child, where the parent's goes on
  const std::lock_guard lock(own->mutex);
  const auto mine = std::find_if(own->shared.begin(), own->shared.end(), [&](const auto& place) {
    return &Ledger::own_words(place) == own_words_;
  });
  if (mine == own->shared.end()) return;  // likewise, of a child that has made promises
  Ledger::own_words(*mine).bytes.store(0, std::memory_order_seq_cst);
  own->shared.erase(mine);
}

Result<MemoryPromise> MemoryPromise::make(const MemoryNeed& need) {
  Ledger& own = ledger();
  const std::lock_guard in_process(own.mutex);
  // Of several worlds the first: its lock is enough where all ranks share it. Elsewhere two that
  // ask at once may both be refused.
  std::optional<ByteLock> in_world;
  if (!own.shared.empty()) {
    in_world.emplace(own.shared.front().lock_file, own.shared.front().lock_byte);
  }
  Asking asking(own, need.touched);
  protocol_step("promise");
  const std::uint64_t others = own.promised_by_others();
  if (Status status = check_memory(need, sum_of(others, asking.before())); !status.ok()) {
    return status;
  }
  asking.grant();
  MemoryPromise promise;
  promise.left_.store(need.touched, std::memory_order_relaxed);
  promise.process_ = own.owner;
  return promise;
}

void MemoryPromise::keep(std::size_t bytes) {
  // Relaxed: only the sum matters.
  std::size_t left = left_.load(std::memory_order_relaxed);
  while (left > 0 && !left_.compare_exchange_weak(left, left - std::min(left, bytes),
                                                  std::memory_order_relaxed)) {
  }
  const std::size_t kept = std::min(left, bytes);
  Ledger* const own = known_ledger();
  if (kept == 0 || own == nullptr || process_ != own->owner) return;
  const std::lock_guard lock(own->mutex);
  own->promised -= kept;
  own->show();
}

}  // namespace tandem::platform
