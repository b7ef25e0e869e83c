// SPDX-License-Identifier: Apache-2.0
//
// TaskQueue against the obvious model: look at every block of the list for each claim. With chunks
// that arrive at random, the queue hands out the same tasks in the same order, each once, and never
// blocks while a block is ready that nobody has. The peers' chunks are counters that the test
// grows.
#include "stream/task_queue.h"

#include <ctime>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "tests/symm/ranks.h"

namespace tandem::stream {
namespace {

constexpr int kRanks = 6;
constexpr int kOwn = 2;  ///< the rank whose queue it is
constexpr std::chrono::milliseconds kFar{60000};

/// One window of all ranks, used by this thread on behalf of all of them.
std::vector<std::unique_ptr<symm::Window>> make_windows() {
  std::vector<std::unique_ptr<symm::Window>> windows(kRanks);
  testing::run_ranks(testing::Ranks::threads, kRanks, [&](const World& world) {
    auto made = world.impl()->create_window(
        {.bytes = kRanks * sizeof(CallHeader), .counters = kRanks + kRanks * kMaxLanes});
    ASSERT_TRUE(made.ok()) << made.status().message();
    windows[static_cast<std::size_t>(world.rank())] = std::move(made).value();
  });
  return windows;
}

/// What the tests draw at random.
struct Shape {
  std::vector<std::int64_t> rows;
  int lanes = 1, parts = 1;
  TilePolicy tiles;
  RowBlockPolicy blocks;

  static Shape random(std::mt19937_64& draw) {
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(draw() % n); };
    Shape s;
    for (int r = 0; r < kRanks; ++r) s.rows.push_back(below(4) == 0 ? below(3) : below(400));
    s.lanes = static_cast<int>(1 + below(4));
    s.parts = static_cast<int>(1 + below(3));
    s.tiles = {.k = 1 + below(2000), .tile_m = below(3) * 8, .tile_k = below(2) * 64};
    if (below(2) == 0) s.tiles.stage_rows = 64;
    s.blocks = {.own = kOwn,
                .most_rows = 1 + below(96),
                .quantum = 1 + below(12),
                .merge_own = below(2) == 0,
                .shared_rows = below(200)};
    return s;
  }
};

/// One call as the receiver sees it, and what has been sent so far.
class Call {
 public:
  Call(std::vector<std::unique_ptr<symm::Window>>& windows, std::uint64_t number,
       const Shape& shape)
      : windows_(windows), shape_(shape), header_{.call = number, .ranks = kRanks} {
    std::vector<Shard> shards;
    std::int64_t row0 = 0;
    for (int r = 0; r < kRanks; ++r) {
      Shard shard;
      shard.row0 = row0;
      shard.plan = ChunkPlan(shape.tiles, shape.rows[static_cast<std::size_t>(r)]);
      shard.local = r == kOwn;
      shard.counter = kRanks + r * kMaxLanes;
      for (int lane = 0; lane < shape.lanes; ++lane) {
        shard.base[static_cast<std::size_t>(lane)] = own().read(shard.counter + lane);
      }
      row0 += shard.rows();
      plans_.push_back(shard.plan);
      sent_.emplace_back(static_cast<std::size_t>(shape.lanes), 0);
      shards.push_back(shard);
    }
    for (int r = 0; r < kRanks; ++r) {
      headers_.push_back(std::make_unique<CallHeaders>(window(r), header_,
                                                       static_cast<std::uint32_t>(number), 0, 0));
    }
    blocks_ = plan_row_blocks(plans_, shape.blocks);
    arrivals_.emplace(std::move(shards), shape.lanes, &own(),
                      headers_[static_cast<std::size_t>(kOwn)].get(), number);
    queue_.emplace(*arrivals_, blocks_, shape.parts, shape.tiles.k, first_k());
    claimed_.assign(blocks_.size(), 0);
    for (int r = 0; r < kRanks; ++r) {
      if (r != kOwn) left_.push_back({r, -1});  // its header
      const std::int64_t chunks = plans_[static_cast<std::size_t>(r)].chunks();
      for (std::int64_t c = 0; r != kOwn && c < chunks; ++c) {
        left_.push_back({r, static_cast<int>(c % shape.lanes)});
      }
    }
  }

  TaskQueue& queue() { return *queue_; }
  [[nodiscard]] const std::vector<RowBlock>& blocks() const { return blocks_; }
  [[nodiscard]] std::int64_t first_k() const { return std::min<std::int64_t>(256, shape_.tiles.k); }

  /// Lets one message that is drawn at random arrive: a header, or the next chunk of a lane.
  bool arrive(std::mt19937_64& draw) {
    if (left_.empty()) return false;
    std::swap(left_[draw() % left_.size()], left_.back());
    const auto [rank, lane] = left_.back();
    left_.pop_back();
    if (lane < 0) {
      headers_[static_cast<std::size_t>(rank)]->publish(kOwn);
      headed_ |= 1U << rank;
    } else {
      window(rank).notify(kOwn, kRanks + rank * kMaxLanes + lane);
      ++sent_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(lane)];
    }
    return true;
  }

  /// The model: whether every chunk up to the last one of the block's is there.
  [[nodiscard]] bool ready(const RowBlock& block, std::int64_t k_end) const {
    std::int64_t row0 = 0;
    for (int r = 0; r < kRanks; ++r) {
      const ChunkPlan& plan = plans_[static_cast<std::size_t>(r)];
      const std::int64_t end = std::min(block.row0 + block.rows - row0, plan.rows());
      const bool reads = end > std::max<std::int64_t>(block.row0 - row0, 0);
      row0 += plan.rows();
      if (!reads || r == kOwn) continue;
      if ((headed_ >> r & 1U) == 0) return false;
      for (std::int64_t c = 0; c < plan.needed(end, k_end); ++c) {
        const auto lane = static_cast<std::size_t>(c % shape_.lanes);
        if (sent_[static_cast<std::size_t>(r)][lane] <= c / shape_.lanes) return false;
      }
    }
    return true;
  }
  /// The model: the block whose task is next, the number of blocks when none may start.
  [[nodiscard]] std::size_t expected() const {
    for (const std::int64_t k_end : {shape_.tiles.k, first_k()}) {
      for (std::size_t b = 0; b < blocks_.size(); ++b) {
        if (claimed_[b] < shape_.parts && ready(blocks_[b], k_end)) return b;
      }
    }
    return blocks_.size();
  }
  void claim(std::size_t block) { ++claimed_[block]; }
  [[nodiscard]] int claimed(std::size_t block) const { return claimed_[block]; }
  /// Tasks of blocks that may start.
  [[nodiscard]] std::int64_t startable() const {
    std::int64_t tasks = 0;
    for (const RowBlock& block : blocks_) tasks += ready(block, first_k()) ? shape_.parts : 0;
    return tasks;
  }

 private:
  symm::Window& window(int rank) { return *windows_[static_cast<std::size_t>(rank)]; }
  symm::Window& own() { return window(kOwn); }

  struct Message {
    int rank, lane;
  };
  std::vector<std::unique_ptr<symm::Window>>& windows_;
  Shape shape_;
  CallHeader header_;
  std::vector<ChunkPlan> plans_;
  std::vector<RowBlock> blocks_;
  std::vector<std::unique_ptr<CallHeaders>> headers_;
  std::optional<Arrivals> arrivals_;
  std::optional<TaskQueue> queue_;
  std::vector<Message> left_;
  unsigned headed_ = 0;
  std::vector<std::vector<std::int64_t>> sent_;
  std::vector<int> claimed_;
};

TEST(TaskQueue, HandsOutWhatTheModelHandsOut) {
  auto windows = make_windows();
  std::mt19937_64 draw(19);
  for (std::uint64_t number = 1; number <= 150; ++number) {
    const Shape shape = Shape::random(draw);
    Call call(windows, number, shape);
    bool more = true;
    while (more) {
      // Bursts: at times nothing may start, at times much, in blocks of many ranks.
      for (std::uint64_t i = draw() % 40; more && i > 0; --i) more = call.arrive(draw);
      for (std::uint64_t i = more ? draw() % 20 : ~std::uint64_t{0}; i > 0; --i) {
        const std::size_t expected = call.expected();
        if (expected == call.blocks().size()) break;
        const auto task = call.queue().next(kFar);
        ASSERT_TRUE(task.ok()) << task.status().message();
        ASSERT_TRUE(task->has_value());
        EXPECT_EQ((*task)->block.row0, call.blocks()[expected].row0);
        ASSERT_EQ((*task)->part, call.claimed(expected));
        call.claim(expected);
      }
    }
    for (std::size_t b = 0; b < call.blocks().size(); ++b) {
      ASSERT_EQ(call.claimed(b), shape.parts) << "round " << number;
    }
    const auto end = call.queue().next(kFar);
    ASSERT_TRUE(end.ok());
    EXPECT_FALSE(end->has_value());
  }
}

TEST(TaskQueue, ThreadsTakeEachTaskOnceAndAllThatMayStart) {
  auto windows = make_windows();
  std::mt19937_64 draw(20);
  for (std::uint64_t number = 1; number <= 6; ++number) {
    const Shape shape = Shape::random(draw);
    Call call(windows, number, shape);
    std::mutex mutex;
    std::map<std::pair<std::int64_t, int>, int> taken;
    std::atomic<std::int64_t> count{0};  // seq_cst: read by the thread below
    const auto work = [&] {
      while (true) {
        const auto task = call.queue().next(kFar);
        ASSERT_TRUE(task.ok()) << task.status().message();
        if (!task->has_value()) return;
        const std::lock_guard lock(mutex);
        ++taken[{(*task)->block.row0, (*task)->part}];
        ++count;
      }
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) threads.emplace_back(work);
    do {
      // Nothing more arrives until all that may start is taken: a thread that slept beside it would
      // sleep until its wait times out.
      const auto limit = platform::Deadline::after(kFar);
      while (count < call.startable() && !limit.passed(platform::Clock::now())) {
        std::this_thread::yield();
      }
      EXPECT_EQ(count, call.startable());
      for (std::uint64_t more = draw() % 30; more > 0; --more) (void)call.arrive(draw);
    } while (!::testing::Test::HasFailure() && call.arrive(draw));
    while (call.arrive(draw)) {
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(static_cast<std::int64_t>(taken.size()), call.queue().tasks());
    for (const auto& [task, times] : taken) ASSERT_EQ(times, 1);
    if (::testing::Test::HasFailure()) return;
  }
}

/// CPU time of this thread for a claim of a queue of so many blocks, the least of several tries.
double nanoseconds_per_claim(std::int64_t blocks) {
  double least = 1e18;
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::vector<Shard> shards(kRanks);
    std::vector<ChunkPlan> plans;
    for (int r = 0; r < kRanks; ++r) {
      Shard& shard = shards[static_cast<std::size_t>(r)];
      shard.plan = ChunkPlan({.k = 2}, blocks / kRanks);
      shard.row0 = r * shard.rows();
      plans.push_back(shard.plan);
    }
    const auto list =
        plan_row_blocks(plans, {.own = kOwn, .most_rows = 1, .merge_own = false, .shared_rows = 0});
    const Arrivals arrivals(std::move(shards), 1, nullptr, nullptr, 1);
    TaskQueue queue(arrivals, list, 1, 2, 2);
    const auto now = [] {
      timespec time{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
    };
    const double start = now();
    while (queue.next(kFar)->has_value()) {
    }
    least = std::min(least, (now() - start) / static_cast<double>(list.size()));
  }
  return least;
}

TEST(TaskQueue, AClaimCostsTheSameHoweverManyBlocksThereAre) {
  // 64 times the blocks: a look at each of them would take some 60 times as long.
  EXPECT_LT(nanoseconds_per_claim(std::int64_t{1} << 15),
            8 * nanoseconds_per_claim(std::int64_t{1} << 9));
}

}  // namespace
}  // namespace tandem::stream
