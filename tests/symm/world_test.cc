// SPDX-License-Identifier: Apache-2.0
//
// World: membership, exchange, memory of windows, and the errors of joining.
#include "symm/world.h"

#include <gmock/gmock.h>

#include "platform/delay.h"
#include "platform/shared_memory.h"
#include "symm/world_memory.h"
#include "tests/symm/ranks.h"

namespace tandem::symm {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::Ranks;
using testing::run_ranks;

class WorldTest : public ::testing::TestWithParam<Ranks> {};

void exchange_many(World& world, int rounds) {
  for (std::int64_t n = 0; n < rounds; ++n) {
    auto all = world.exchange(Collective::all_gather, Terms{world.rank() + 100 * n, -n});
    ASSERT_TRUE(all.ok()) << all.status().message();
    ASSERT_EQ(all->size(), static_cast<std::size_t>(world.size()));
    for (int r = 0; r < world.size(); ++r) {
      ASSERT_EQ((*all)[static_cast<std::size_t>(r)][0], r + 100 * n);
      ASSERT_EQ((*all)[static_cast<std::size_t>(r)][1], -n);
    }
  }
}

TEST_P(WorldTest, ExchangeGivesEveryRanksTerms) {
  run_ranks(GetParam(), 3, [](const tandem::World& w) { exchange_many(*w.impl(), 1000); });
}

TEST_P(WorldTest, ExchangeUnderDelays) {
  run_ranks(GetParam(), 4, [](const tandem::World& w) {
    platform::set_delays(3, 2000);
    exchange_many(*w.impl(), 50);
    platform::set_delays(3, 0);
  });
}

TEST_P(WorldTest, AllGatherAndBarrier) {
  run_ranks(GetParam(), 3, [](const tandem::World& world) {
    EXPECT_TRUE(world.barrier().ok());
    auto all = world.all_gather(0.1 * world.rank());
    ASSERT_TRUE(all.ok());
    EXPECT_THAT(*all, ::testing::ElementsAre(0.1 * 0, 0.1 * 1, 0.1 * 2));
  });
}

TEST_P(WorldTest, SpecsMustAgree) {
  run_ranks(GetParam(), 3, [](const tandem::World& w) {
    World& world = *w.impl();
    auto window = world.create_window({.bytes = world.rank() == 2 ? 200u : 100u, .counters = 1});
    ASSERT_FALSE(window.ok());
    EXPECT_EQ(window.status().code(), StatusCode::kMismatch);
    EXPECT_THAT(window.status().message(), HasSubstr("ranks 0 and 2"));
    EXPECT_THAT(window.status().message(), HasSubstr("100 and 200"));
    // A disagreement does not break the world.
    EXPECT_TRUE(world.create_window({.bytes = 100, .counters = 1}).ok());
  });
}

TEST_P(WorldTest, ExhaustionIsAnError) {
  run_ranks(GetParam(), 2, [](const tandem::World& w) {
    World& world = *w.impl();
    auto window = world.create_window({.bytes = std::size_t{1} << 44, .counters = 1});
    ASSERT_FALSE(window.ok());
    EXPECT_EQ(window.status().code(), StatusCode::kOutOfMemory);
    EXPECT_THAT(window.status().message(), HasSubstr("MiB"));
    EXPECT_TRUE(world.create_window({.bytes = 1 << 20, .counters = 1}).ok());
  });
}

TEST_P(WorldTest, AbsurdSizesAreRefused) {
  run_ranks(GetParam(), 2, [](const tandem::World& w) {
    auto window = w.impl()->create_window({.bytes = ~std::size_t{0} - 100, .counters = 1});
    ASSERT_FALSE(window.ok());
    EXPECT_EQ(window.status().code(), StatusCode::kInvalidArgument);
  });
}

TEST_P(WorldTest, OneRankThatCannotIsToldByAll) {
  run_ranks(GetParam(), 2, [](const tandem::World& w) {
    World& world = *w.impl();
    auto window = world.create_window({.bytes = 100, .counters = world.rank() == 1 ? -1 : 1});
    ASSERT_FALSE(window.ok());
  });
}

TEST_P(WorldTest, TimeoutOfABarrierNamesTheLateRank) {
  run_ranks(GetParam(), 2,
            [](const tandem::World& world) {
              if (world.rank() == 1) {
                platform::sleep_until(platform::Clock::now() + milliseconds(4000));
                // Late, and told so: the failure stands for every rank.
                EXPECT_EQ(world.barrier().code(), StatusCode::kTimeout);
                return;
              }
              const Status status = world.barrier();
              EXPECT_EQ(status.code(), StatusCode::kTimeout);
              ASSERT_TRUE(status.wait().has_value());
              EXPECT_EQ(status.wait()->rank, 1);
              EXPECT_THAT(status.message(), HasSubstr("rank 1"));
              platform::sleep_until(platform::Clock::now() + milliseconds(4000));
            },
            {.timeout = milliseconds(2000)});
}

TEST_P(WorldTest, LeavingIsNoticed) {
  run_ranks(GetParam(), 3, [](const tandem::World& world) {
    if (world.rank() == 1) return;
    const Status status = world.barrier();
    EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.message();
    ASSERT_TRUE(status.wait().has_value());
    EXPECT_EQ(status.wait()->rank, 1);
    EXPECT_FALSE(world.impl()->alive(1));
  });
}

std::string kind_name(const ::testing::TestParamInfo<Ranks>& info) {
  return testing::text(info.param);
}
INSTANTIATE_TEST_SUITE_P(Ranks, WorldTest, ::testing::Values(Ranks::threads, Ranks::processes),
                         kind_name);

TEST(WorldMemory, WindowsGiveTheirMemoryBack) {
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  auto memory = WorldMemory::create(1, /*locks=*/true);
  ASSERT_TRUE(memory.ok());
  platform::SharedFile& file = (*memory)->file();
  const std::size_t before = file.reserved_bytes();
  auto world = join_world(0, 1, file.fd(), milliseconds(1000));
  ASSERT_TRUE(world.ok()) << world.status().message();
  for (int i = 0; i < 3; ++i) {
    auto first = (*world)->create_window({.bytes = kBytes, .counters = 1});
    auto second = (*world)->create_window({.bytes = kBytes, .counters = 1});
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_GE(file.reserved_bytes(), before + 2 * kBytes);
    first->reset();
    EXPECT_LT(file.reserved_bytes(), before + 2 * kBytes);
    EXPECT_GE(file.reserved_bytes(), before + kBytes);
  }
  EXPECT_EQ(file.reserved_bytes(), before);
}

TEST(WorldMemory, TwoWorldsAndTwoWindowsShareNothing) {
  auto one = make_thread_worlds(1, milliseconds(1000));
  auto two = make_thread_worlds(1, milliseconds(1000));
  ASSERT_TRUE(one.ok() && two.ok());
  auto a = one->front()->create_window({.bytes = 64, .counters = 1});
  auto b = one->front()->create_window({.bytes = 64, .counters = 1});
  auto c = two->front()->create_window({.bytes = 64, .counters = 1});
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  (*a)->notify(0, 0, 3);
  (*a)->data(0)[0] = std::byte{1};
  EXPECT_EQ((*b)->read(0), 0u);
  EXPECT_EQ((*c)->read(0), 0u);
  EXPECT_EQ((*b)->data(0)[0], std::byte{0});
  EXPECT_EQ((*c)->data(0)[0], std::byte{0});
  EXPECT_EQ((*b)->fail({StatusCode::kInternal, "only b"}).message(), "only b");
  EXPECT_TRUE((*a)->failure().ok());
  EXPECT_TRUE(one->front()->barrier().ok());
}

TEST(World, SizesAndTimeoutsAreChecked) {
  for (int size : {-1, 0, 65}) {
    auto worlds = tandem::World::threads(size);
    ASSERT_FALSE(worlds.ok());
    EXPECT_EQ(worlds.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(worlds.status().message(), HasSubstr(std::to_string(size)));
    EXPECT_THAT(worlds.status().message(), HasSubstr("1..64"));
  }
  EXPECT_FALSE(tandem::World::threads(2, {.timeout = milliseconds(0)}).ok());
  EXPECT_TRUE(tandem::World::threads(64).ok());
}

struct Rendezvous {
  explicit Rendezvous(int size) : fd(make_rendezvous(size).value()) {}
  ~Rendezvous() { platform::close_descriptor(fd); }
  int fd;
};

TEST(JoinWorld, WrongSizeIsAClearError) {
  const Rendezvous meeting(2);
  auto world = join_world(0, 3, meeting.fd, milliseconds(100));
  ASSERT_FALSE(world.ok());
  EXPECT_EQ(world.status().code(), StatusCode::kMismatch);
  EXPECT_THAT(world.status().message(), HasSubstr("3 ranks"));
  EXPECT_THAT(world.status().message(), HasSubstr("made for 2"));
}

TEST(JoinWorld, AnotherVersionIsAClearError) {
  const Rendezvous meeting(1);
  auto memory = WorldMemory::adopt(meeting.fd, 1);
  ASSERT_TRUE(memory.ok());
  (*memory)->control().version = 99;
  auto world = join_world(0, 1, meeting.fd, milliseconds(100));
  ASSERT_FALSE(world.ok());
  EXPECT_EQ(world.status().code(), StatusCode::kMismatch);
  EXPECT_THAT(world.status().message(), HasSubstr("layout 99"));
}

TEST(JoinWorld, SomethingElseIsAClearError) {
  for (int fd : {0, 999}) {
    auto world = join_world(0, 1, fd, milliseconds(100));
    ASSERT_FALSE(world.ok());
    EXPECT_THAT(world.status().message(), HasSubstr(fmt::format("descriptor {}", fd)));
  }
  auto file = platform::SharedFile::create();
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(join_world(0, 1, file->fd(), milliseconds(100)).status().code(), StatusCode::kMismatch);
  ASSERT_TRUE(file->reserve(0, WorldMemory::control_bytes()).ok());
  EXPECT_EQ(join_world(0, 1, file->fd(), milliseconds(100)).status().code(), StatusCode::kMismatch);
}

TEST(JoinWorld, ARankJoinsOnce) {
  const Rendezvous meeting(1);
  auto world = join_world(0, 1, meeting.fd, milliseconds(1000));
  ASSERT_TRUE(world.ok()) << world.status().message();
  auto again = join_world(0, 1, meeting.fd, milliseconds(100));
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.status().message(), HasSubstr("rank 0 of this world is taken"));
  EXPECT_TRUE((*world)->barrier().ok()) << "a refused rank must not disturb the world";
  world->reset();
  EXPECT_THAT(join_world(0, 1, meeting.fd, milliseconds(100)).status().message(),
              HasSubstr("has left"));
  EXPECT_EQ(join_world(1, 1, meeting.fd, milliseconds(100)).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(JoinWorld, ARankThatNeverComesIsNamed) {
  const Rendezvous meeting(2);
  auto world = join_world(0, 2, meeting.fd, milliseconds(100));
  ASSERT_FALSE(world.ok());
  EXPECT_EQ(world.status().code(), StatusCode::kTimeout);
  EXPECT_EQ(world.status().wait()->rank, 1);
}

TEST(JoinWorld, ARankThatEndedBeforeItJoinedIsLost) {
  const Rendezvous meeting(2);
  mark_ended(meeting.fd, 2, 1);
  auto world = join_world(0, 2, meeting.fd, milliseconds(20000));
  ASSERT_FALSE(world.ok());
  EXPECT_EQ(world.status().code(), StatusCode::kPeerLost);
  EXPECT_EQ(world.status().wait()->rank, 1);
}

}  // namespace
}  // namespace tandem::symm
