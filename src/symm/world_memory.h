// SPDX-License-Identifier: Apache-2.0
//
// WorldMemory: one process's view of the memory file of a world, shared by those of its ranks that
// are threads of this process. The file begins with the control block; the windows follow. A range
// is mapped once per process, so that thread ranks meet at one address, where tools that look for
// data races can follow them. Used by world.cc and window.cc.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "base/internal_api.h"
#include "platform/memory_promise.h"
#include "platform/shared_memory.h"
#include "symm/doorbell.h"
#include "symm/failure_record.h"
#include "symm/offer.h"
#include "symm/world.h"
#include "tandem/world.h"

namespace tandem::symm {

/// Changed with every change of what follows or of a window's layout.
inline constexpr std::uint32_t kLayoutVersion = 6;
inline constexpr std::uint64_t kMagic = 0x314d45444e4154ULL;  // "TANDEM1" in memory

/// Exchanges in flight. Two are enough: world.cc has the argument.
inline constexpr int kExchangeSlots = 2;

/// A set of hardware threads; more than the kernel supports on x86-64 today (8192) fold.
inline constexpr std::size_t kCpuWords = 128;
using CpuMask = std::array<std::uint64_t, kCpuWords>;

/// `left`: the rank said so. `ended`: its launcher saw the process end without that.
enum class RankState : std::uint32_t { absent, joined, left, ended };

struct RankEntry {
  /// From absent to joined to left or ended. Release at joined: pairs with the acquire of whoever
  /// looks, so that `cpus` is complete and the rank's byte lock was taken before.
  alignas(kCacheLine) std::atomic<RankState> state{RankState::absent};
  /// Exchanges that this rank has published, ever.
  alignas(kCacheLine) std::atomic<std::uint32_t> exchanged{0};
  Doorbell bell;
  FailureSlot failure;
  CpuMask cpus{};
  std::array<Offer, kExchangeSlots> offers{};
};

struct ControlBlock {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kLayoutVersion;
  std::uint32_t size = 0;  ///< believed once, by adopt(); after that WorldMemory::size()
  std::array<std::uint64_t, 2> nonce{};  ///< by which ranks of a machine know that they share this
  FailureChoice failure;
  std::array<RankEntry, kMaxRanks> ranks;
  std::array<platform::PromisedWords, kMaxRanks> promised;  ///< by rank; memory_promise.h
};
static_assert(std::atomic<RankState>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

class TANDEM_INTERNAL_API WorldMemory {
 public:
  /// A new world of `size` ranks. `locks`: ranks are processes, each holding its byte lock.
  static Result<std::shared_ptr<WorldMemory>> create(int size, bool locks);
  /// An existing world of process ranks. Errors: kIo, kMismatch (other version, other size).
  static Result<std::shared_ptr<WorldMemory>> adopt(int fd, int size);

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] platform::SharedFile& file() { return file_; }
  [[nodiscard]] ControlBlock& control() const {
    return *reinterpret_cast<ControlBlock*>(control_.data());
  }
  [[nodiscard]] RankEntry& entry(int rank) const {
    return control().ranks[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] FailureRecord& failure() { return failure_; }
  [[nodiscard]] bool locks() const { return locks_; }
  /// Where ranks are processes: locks this rank's byte, for as long as this view lives. False when
  /// another one holds it.
  Result<bool> lock_rank(int rank);

  /// The mapping of a range, the same for all callers of this process as long as one holds it.
  Result<std::shared_ptr<const platform::SharedMapping>> map(std::size_t offset, std::size_t bytes);
  /// Wakes everybody who waits in an exchange.
  void ring_all() const;

  /// Where windows may begin.
  static std::size_t control_bytes();

 private:
  WorldMemory(platform::SharedFile file, platform::SharedMapping control, int size, bool locks)
      : file_(std::move(file)),
        control_(std::move(control)),
        failure_(this->control().failure, entry(0).failure, sizeof(RankEntry), size),
        size_(size),
        locks_(locks) {}

  platform::SharedFile file_;
  platform::SharedMapping control_;
  platform::ProcessLock lock_;
  FailureRecord failure_;
  const int size_;
  const bool locks_;
  std::mutex mutex_;  // guards ranges_
  std::map<std::size_t, std::weak_ptr<const platform::SharedMapping>> ranges_;
};

}  // namespace tandem::symm
