// SPDX-License-Identifier: Apache-2.0
//
// What every transport promises, for thread ranks and process ranks: the bytes are there when the
// counter says so, parcels of a lane arrive at a peer in order, flush() leaves nothing under way.
// A new transport becomes one more line in kTransports.
#include "transport/lane.h"

#include <cstring>
#include <tuple>

#include <gmock/gmock.h>

#include "platform/delay.h"
#include "tests/symm/ranks.h"

namespace tandem::transport {
namespace {

using testing::far;
using testing::Ranks;
using testing::run_ranks;

struct Named {
  const char* name;
  TransportSpec spec;
};

const Named kTransports[] = {
    {"shm", {}},
    {"sim",
     {.kind = TransportKind::sim,
      .link = {.bytes_per_second = 4e9, .latency = std::chrono::microseconds(30)}}},
    {"sim_jitter",
     {.kind = TransportKind::sim,
      .link = {.bytes_per_second = 4e9,
               .latency = std::chrono::microseconds(10),
               .jitter = std::chrono::microseconds(300),
               .seed = 5}}},
};

class LaneTest : public ::testing::TestWithParam<std::tuple<Named, Ranks, int>> {
 protected:
  void TearDown() override { platform::set_delays(1, 0); }
  const TransportSpec& spec() const { return std::get<0>(GetParam()).spec; }
  void run(const std::function<void(symm::World&)>& body) {
    run_ranks(std::get<1>(GetParam()), std::get<2>(GetParam()),
              [&](const World& world) { body(*world.impl()); });
  }
};

constexpr std::size_t kRowBytes = 192, kToPitch = 256, kFromPitch = 320;
constexpr std::int64_t kRows = 5;
constexpr std::size_t kExtraBytes = 20;  // behind the rectangle
constexpr std::size_t kPlace = kToPitch * kRows + 64;

std::byte value(int source, int parcel, std::int64_t row) {
  return static_cast<std::byte>(1 + source * 37 + parcel * 11 + row);
}

/// Every rank sends `parcels` rectangles to every other on `lanes` lanes (threads); receivers check
/// each one as its counter announces it.
void exchange_rectangles(symm::World& world, const TransportSpec& spec, int parcels, int lanes) {
  const int size = world.size(), me = world.rank();
  const auto place = [&](int source, int lane, int parcel) {
    return static_cast<std::size_t>((source * lanes + lane) * parcels + parcel) * kPlace;
  };
  const auto counter = [&](int source, int lane) { return source * lanes + lane; };
  auto made = world.create_window({.bytes = place(size, 0, 0), .counters = size * lanes});
  ASSERT_TRUE(made.ok()) << made.status().message();
  symm::Window& window = **made;

  std::vector<std::jthread> senders;  // joined also when an assertion leaves the function
  for (int lane = 0; lane < lanes; ++lane) {
    senders.emplace_back([&, lane] {
      const auto sender = make_lane(spec, window, lane);
      std::vector<std::byte> memory(kFromPitch * kRows * static_cast<std::size_t>(parcels));
      std::vector<std::byte> extra(kExtraBytes * static_cast<std::size_t>(parcels));
      for (int p = 0; p < parcels; ++p) {
        std::byte* from = memory.data() + kFromPitch * kRows * static_cast<std::size_t>(p);
        for (std::int64_t i = 0; i < kRows; ++i) {
          std::memset(from + static_cast<std::size_t>(i) * kFromPitch,
                      static_cast<int>(value(me + lane, p, i)), kRowBytes);
        }
        std::byte* extra_from = extra.data() + kExtraBytes * static_cast<std::size_t>(p);
        std::memset(extra_from, static_cast<int>(value(me + lane, p, kRows)), kExtraBytes);
        for (int step = 1; step < size; ++step) {
          const Status sent = sender->send({.peer = (me + step) % size,
                                            .counter = counter(me, lane),
                                            .copy = true,
                                            .from = from,
                                            .from_pitch = kFromPitch,
                                            .to = place(me, lane, p),
                                            .to_pitch = kToPitch,
                                            .row_bytes = kRowBytes,
                                            .rows = kRows,
                                            .extra_from = extra_from,
                                            .extra_to = place(me, lane, p) + kToPitch * kRows,
                                            .extra_bytes = kExtraBytes});
          EXPECT_TRUE(sent.ok()) << sent.message();
        }
      }
      EXPECT_TRUE(sender->flush().ok());
    });
  }
  for (int p = 0; p < parcels; ++p) {
    for (int source = 0; source < size; ++source) {
      if (source == me) continue;
      for (int lane = 0; lane < lanes; ++lane) {
        const Status arrived =
            window.wait_until(counter(source, lane), static_cast<std::uint32_t>(p + 1),
                              {.rank = source, .call = 1, .chunk = p}, far());
        ASSERT_TRUE(arrived.ok()) << arrived.message();
        const std::byte* at = window.data(me) + place(source, lane, p);
        for (std::int64_t i = 0; i < kRows; ++i) {
          for (std::size_t b = 0; b < kToPitch; ++b) {
            const std::byte expected = b < kRowBytes ? value(source + lane, p, i) : std::byte{0};
            ASSERT_EQ(at[static_cast<std::size_t>(i) * kToPitch + b], expected)
                << "source " << source << " parcel " << p << " row " << i << " byte " << b;
          }
        }
        for (std::size_t b = 0; b < kExtraBytes; ++b) {
          ASSERT_EQ(at[kToPitch * kRows + b], value(source + lane, p, kRows)) << "extra byte " << b;
        }
      }
    }
  }
  for (std::jthread& sender : senders) sender.join();
  EXPECT_TRUE(world.barrier().ok());
  for (int source = 0; source < size; ++source) {
    for (int lane = 0; lane < lanes; ++lane) {
      EXPECT_EQ(window.read(counter(source, lane)),
                static_cast<std::uint32_t>(source == me ? 0 : parcels));
    }
  }
  EXPECT_TRUE(world.barrier().ok());
}

TEST_P(LaneTest, RectanglesAreThereWhenTheirCounterSaysSo) {
  run([&](symm::World& world) { exchange_rectangles(world, spec(), 40, 1); });
}

TEST_P(LaneTest, LanesDoNotDisturbEachOther) {
  run([&](symm::World& world) { exchange_rectangles(world, spec(), 15, 3); });
}

TEST_P(LaneTest, UnderDelays) {
  run([&](symm::World& world) {
    platform::set_delays(9, 300);
    exchange_rectangles(world, spec(), 10, 2);
  });
}

TEST_P(LaneTest, PullParcelsOnlyNotify) {
  run([&](symm::World& world) {
    auto made = world.create_window({.bytes = 4096, .counters = world.size()});
    ASSERT_TRUE(made.ok());
    symm::Window& window = **made;
    const int me = world.rank(), size = world.size();
    std::memset(window.data(me), 10 + me, 4096);
    const auto lane = make_lane(spec(), window, 0);
    for (int step = 1; step < size; ++step) {
      const Status sent =
          lane->send({.peer = (me + step) % size, .counter = me, .row_bytes = 4096, .rows = 1});
      EXPECT_TRUE(sent.ok());
    }
    EXPECT_TRUE(lane->flush().ok());
    for (int r = 0; r < size; ++r) {
      if (r == me) continue;
      ASSERT_TRUE(window.wait_until(r, 1, {.rank = r, .call = 1}, far()).ok());
      EXPECT_EQ(window.data(r)[4095], static_cast<std::byte>(10 + r));
    }
    EXPECT_TRUE(world.barrier().ok());
  });
}

TEST_P(LaneTest, EmptyParcelsAndOwnParcelsArrive) {
  run([&](symm::World& world) {
    auto made = world.create_window({.bytes = 64, .counters = 2});
    ASSERT_TRUE(made.ok());
    symm::Window& window = **made;
    const auto lane = make_lane(spec(), window, 0);
    const std::byte own{9};
    EXPECT_TRUE(lane->send({.peer = world.rank(),
                            .counter = 1,
                            .copy = true,
                            .from = &own,
                            .from_pitch = 1,
                            .to = 63,
                            .to_pitch = 1,
                            .row_bytes = 1,
                            .rows = 1})
                    .ok());
    const int right = (world.rank() + 1) % world.size();
    EXPECT_TRUE(lane->send({.peer = right, .counter = 0, .copy = true}).ok());
    EXPECT_TRUE(lane->flush().ok());
    EXPECT_TRUE(window.test(1, 1));
    EXPECT_EQ(window.data(world.rank())[63], own);
    EXPECT_TRUE(window.wait_until(0, 1, {.rank = -1, .call = 1}, far()).ok());
    EXPECT_TRUE(world.barrier().ok());
  });
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<Named, Ranks, int>>& info) {
  return fmt::format("{}_{}{}", std::get<0>(info.param).name,
                     testing::text(std::get<1>(info.param)), std::get<2>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Threads, LaneTest,
                         ::testing::Combine(::testing::ValuesIn(kTransports),
                                            ::testing::Values(Ranks::threads),
                                            ::testing::Values(2, 5)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Processes, LaneTest,
                         ::testing::Combine(::testing::ValuesIn(kTransports),
                                            ::testing::Values(Ranks::processes),
                                            ::testing::Values(3)),
                         case_name);

}  // namespace
}  // namespace tandem::transport
