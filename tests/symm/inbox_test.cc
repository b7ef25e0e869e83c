// SPDX-License-Identifier: Apache-2.0
//
// The inbox acts for ranks of another machine on this one's memory, and lets nothing from outside
// touch what it must not.
#include "symm/inbox.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "symm/world.h"
#include "symm/world_memory.h"

namespace tandem::symm {
namespace {

/// Ranks 0 and 1 on this machine, 2 and 3 on another; seen from rank 0, who receives what 2 sends.
struct Scene {
  Scene() {
    EXPECT_TRUE(WindowMemory::open(memory, machines, spec, 1, offset).ok());
    window = WindowMemory::open(memory, machines, spec, 0, offset).value();
    for (int r = 0; r < 4; ++r) memory->entry(r).state = RankState::joined;
    inbox.open(window);
  }
  [[nodiscard]] Note note(NoteKind kind) const { return {.kind = kind, .window = offset}; }

  std::shared_ptr<WorldMemory> memory = WorldMemory::create(4, /*locks=*/false).value();
  Machines machines{{0, 0, 2, 2}, 0};
  WindowSpec spec{.bytes = 20000, .counters = 3, .mirror_offset = 100, .mirror_bytes = 9000};
  std::size_t offset = WorldMemory::control_bytes();
  std::shared_ptr<WindowMemory> window;
  Inbox inbox{memory, machines, 0};
};

std::span<const std::byte> text(const char* words) {
  return std::as_bytes(std::span(words, std::strlen(words)));
}

TEST(Inbox, PutsAndNotifiesAsALocalRankWould) {
  Scene s;
  Note put = s.note(NoteKind::put);
  put.peer = 1;
  put.offset = 19995;
  ASSERT_TRUE(s.inbox.act(2, put, text("hello")));
  EXPECT_EQ(std::memcmp(s.window->data(1) + 19995, "hello", 5), 0);
  Note notify = s.note(NoteKind::notify);
  notify.peer = 1;
  notify.counter = 2;
  notify.number = 7;
  ASSERT_TRUE(s.inbox.act(2, notify, {}));
  EXPECT_EQ(s.window->read(1, 2), 7u);
  EXPECT_EQ(s.window->read(0, 2), 0u);
}

TEST(Inbox, RefusesWhatLiesOutside) {
  Scene s;
  Note put = s.note(NoteKind::put);
  put.peer = 1;
  put.offset = 19996;
  EXPECT_FALSE(s.inbox.act(2, put, text("hello")));
  put.offset = ~std::uint64_t{0} - 2;
  EXPECT_FALSE(s.inbox.act(2, put, text("hello")));
  put.offset = 0;
  put.peer = 2;  // not of this machine
  EXPECT_FALSE(s.inbox.act(2, put, text("hello")));
  put.peer = 99;
  EXPECT_FALSE(s.inbox.act(2, put, text("hello")));
  Note notify = s.note(NoteKind::notify);
  notify.counter = 3;
  EXPECT_FALSE(s.inbox.act(2, notify, {}));
  notify.counter = -1;
  EXPECT_FALSE(s.inbox.act(2, notify, {}));
  EXPECT_FALSE(s.inbox.act(2, s.note(static_cast<NoteKind>(77)), {}));
}

/// Whether a cargo of rank 2 is accepted for the scene's window.
bool fits(Scene& s, const Cargo& cargo) {
  std::shared_ptr<WindowMemory> window;
  return s.inbox.accept(2, cargo, window) && window == s.window;
}

TEST(Inbox, CargoMustFitTheMirrorOrTheOwnPart) {
  Scene s;
  Cargo cargo{.window = s.offset,
              .peers = 3,
              .part = 2,
              .counter = 1,
              .to = 100,
              .to_pitch = 100,
              .row_bytes = 50,
              .rows = 90};
  EXPECT_TRUE(fits(s, cargo));  // up to 9050 of 100 to 9100
  cargo.rows = 91;
  EXPECT_FALSE(fits(s, cargo));
  cargo.rows = 1;
  cargo.to = 99;
  EXPECT_FALSE(fits(s, cargo));
  cargo.part = 1;  // a part of this machine has all its bytes
  EXPECT_TRUE(fits(s, cargo));
  cargo.to_pitch = ~std::uint64_t{0};
  cargo.rows = 3;
  EXPECT_FALSE(fits(s, cargo));
  cargo.rows = 1;
  cargo.peers = 4;  // rank 2 is told by its own machine
  EXPECT_FALSE(fits(s, cargo));
  cargo.peers = 3;
  cargo.extra_to = 19999;
  cargo.extra_bytes = 2;
  EXPECT_FALSE(fits(s, cargo));
  cargo.extra_bytes = 1;
  ASSERT_TRUE(fits(s, cargo));
  Inbox::arrived(cargo, *s.window);
  EXPECT_EQ(s.window->read(0, 1), 1u);
  EXPECT_EQ(s.window->read(1, 1), 1u);
}

TEST(Inbox, CargoForNobodyHereMakesNoSense) {
  Scene s;
  Cargo cargo{.window = s.offset, .peers = 1, .part = 2, .to = 100, .row_bytes = 8, .rows = 1};
  ASSERT_TRUE(fits(s, cargo));
  cargo.peers = 1 | std::uint64_t{1} << 60;  // there is no rank 60
  EXPECT_FALSE(fits(s, cargo));
  cargo.peers = 1;
  cargo.part = 3;  // the mirror of another source
  EXPECT_FALSE(fits(s, cargo));
  cargo.part = -1;
  EXPECT_FALSE(fits(s, cargo));
  cargo.part = 64;
  EXPECT_FALSE(fits(s, cargo));
  cargo.part = 2;
  cargo.rows = -1;
  EXPECT_FALSE(fits(s, cargo));
}

TEST(Inbox, CargoOfAClosedWindowIsRefusedWithinBounds) {
  Scene s;
  std::shared_ptr<WindowMemory> window;
  Cargo cargo{.window = s.offset + 1, .part = 2, .row_bytes = 1 << 20, .rows = 1 << 20};
  EXPECT_TRUE(s.inbox.accept(2, cargo, window));
  EXPECT_EQ(window, nullptr);
  // Larger than what any window can have had.
  cargo.rows = std::int64_t{1} << 40;
  EXPECT_FALSE(s.inbox.accept(2, cargo, window));
  cargo.rows = 1;
  cargo.row_bytes = ~std::uint64_t{0};
  EXPECT_FALSE(s.inbox.accept(2, cargo, window));
  cargo.row_bytes = 1;
  cargo.extra_bytes = ~std::uint64_t{0};
  EXPECT_FALSE(s.inbox.accept(2, cargo, window));
}

TEST(Inbox, WhereCargoLandsStaysThereWhileItComes) {
  Scene s;
  std::shared_ptr<WindowMemory> landing;
  const Cargo cargo{
      .window = s.offset, .peers = 1, .part = 2, .to = 100, .row_bytes = 8, .rows = 1};
  ASSERT_TRUE(s.inbox.accept(2, cargo, landing));
  const std::weak_ptr<WindowMemory> watched = s.window;
  s.window.reset();
  s.inbox.close(s.offset);
  ASSERT_TRUE(s.inbox.act(2, s.note(NoteKind::left_window), {}));
  ASSERT_FALSE(watched.expired());
  landing->data(2)[100] = std::byte{1};  // as the network does
  landing.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(Inbox, ExchangesComeOneAfterTheOther) {
  Scene s;
  const Offer offer = Offer::of(Collective::barrier, Terms{7});
  Note note{.kind = NoteKind::exchange};
  for (std::uint32_t number : {0u, 2u, ~0u}) {
    note.number = number;
    EXPECT_FALSE(s.inbox.act(2, note, bytes_of(offer))) << number;
  }
  note.number = 1;
  EXPECT_FALSE(s.inbox.act(2, note, bytes_of(offer).first(8)));
  EXPECT_TRUE(s.inbox.act(2, note, bytes_of(offer)));
  EXPECT_EQ(s.memory->entry(2).offers[1].terms[0], 7);
  EXPECT_FALSE(s.inbox.act(2, note, bytes_of(offer)));
}

TEST(Inbox, AFailureMustBeOne) {
  Scene s;
  for (std::uint32_t code : {0u, 9u, ~0u}) {
    FailureText text = FailureText::of({StatusCode::kTimeout, "late"});
    text.code = code;
    EXPECT_FALSE(s.inbox.act(2, s.note(NoteKind::failure), bytes_of(text))) << code;
  }
  FailureText text = FailureText::of({StatusCode::kTimeout, "late"});
  text.length = ~std::uint32_t{0};  // more words than there is room for
  EXPECT_TRUE(s.inbox.act(2, s.note(NoteKind::failure), bytes_of(text)));
  EXPECT_EQ(s.window->failure().read().message().size(), sizeof text.message);
}

TEST(Inbox, ARankThatIsLostFailsTheWorldAndItsWindows) {
  Scene s;
  const Status failure(StatusCode::kOutOfMemory, "out of memory");
  ASSERT_TRUE(s.inbox.act(2, {.kind = NoteKind::lost}, bytes_of(FailureText::of(failure))));
  EXPECT_EQ(s.window->failure().read().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(s.memory->failure().read().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(s.memory->entry(2).state.load(), RankState::ended);  // nobody waits for its farewell
}

TEST(Inbox, ADeadRankIsReportedOnceAndBelievedOfItsOwnMachineOnly) {
  // Ranks 0 and 1 here, 2 and 3 there. Rank 1 has joined and holds no lock: its process is dead.
  const auto here = WorldMemory::create(4, /*locks=*/true).value();
  const auto there = WorldMemory::create(4, /*locks=*/true).value();
  for (const auto& memory : {here, there}) {
    for (int r = 0; r < 4; ++r) memory->entry(r).state = RankState::joined;
  }
  Inbox finder(here, Machines({0, 0, 2, 2}, 0), 0), hearer(there, Machines({0, 0, 2, 2}, 2), 2);
  std::vector<Note> told;
  const auto tell = [&](const Note& note, std::span<const std::byte>) { told.push_back(note); };
  finder.report_dead(tell);
  finder.report_dead(tell);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].peer, 1);
  EXPECT_EQ(here->entry(1).state.load(), RankState::ended);
  EXPECT_EQ(here->entry(0).state.load(), RankState::joined);  // oneself
  EXPECT_TRUE(hearer.act(0, told[0], {}));
  EXPECT_EQ(there->entry(1).state.load(), RankState::ended);
  // Nobody speaks for ranks of another machine.
  for (int r : {2, 3, 4, -1}) {
    EXPECT_FALSE(hearer.act(0, {.kind = NoteKind::ended, .peer = r}, {})) << r;
  }
  EXPECT_EQ(there->entry(3).state.load(), RankState::joined);
}

TEST(Inbox, LeavesAsTheDestructorsWould) {
  Scene s;
  (void)s.window->failure().publish(0, FailureText::of({StatusCode::kTimeout, "late"}));
  std::vector<NoteKind> told;
  s.inbox.leave([&](const Note& note, std::span<const std::byte>) { told.push_back(note.kind); });
  // The failure first, or others would take this rank for the culprit.
  EXPECT_EQ(told, (std::vector<NoteKind>{NoteKind::failure, NoteKind::left_window,
                                         NoteKind::left_world}));
  EXPECT_TRUE(s.window->has_left(0));
  EXPECT_EQ(s.memory->entry(0).state.load(), RankState::left);
}

TEST(Inbox, AFailureIsPublishedWithItsDetail) {
  Scene s;
  const Status failure(StatusCode::kTimeout, "rank 2 waited", WaitDetail{.rank = 3, .call = 5});
  ASSERT_TRUE(s.inbox.act(2, s.note(NoteKind::failure),
                          bytes_of(FailureText::of(failure, /*refused=*/true))));
  EXPECT_TRUE(s.window->failure().refused());
  const Status seen = s.window->failure().read();
  EXPECT_EQ(seen.code(), StatusCode::kTimeout);
  EXPECT_EQ(seen.message(), "rank 2 waited");
  ASSERT_TRUE(seen.wait());
  EXPECT_EQ(seen.wait()->rank, 3);
  EXPECT_EQ(seen.wait()->call, 5u);
  EXPECT_TRUE(s.memory->failure().read().ok());  // the window's, not the world's
}

TEST(Inbox, ServesUntilItsSourcesAndItsMachineHaveLeft) {
  Scene s;
  EXPECT_FALSE(s.inbox.sources_left());
  ASSERT_TRUE(s.inbox.act(2, {.kind = NoteKind::left_world}, {}));
  EXPECT_TRUE(s.inbox.sources_left());  // rank 3 is received by rank 1
  ASSERT_TRUE(s.inbox.act(2, s.note(NoteKind::left_window), {}));
  EXPECT_TRUE(s.window->has_left(2));
  EXPECT_FALSE(s.window->has_left(3));
  // Closed and left: what still comes for it is of no interest, and no error.
  s.inbox.close(s.offset);
  Note notify = s.note(NoteKind::notify);
  notify.peer = 1;
  notify.number = 1;
  EXPECT_TRUE(s.inbox.act(2, notify, {}));
  EXPECT_EQ(s.window->read(1, 0), 0u);
}

/// A network on which nobody answers.
class Silence final : public Remote {
 public:
  void tell(int, Note, std::span<const std::byte>) override { ++told; }
  void ship(int, const Cargo&, CargoSource) override {}
  void set_pace(bool) override {}
  void core_freed(int threads) override { (threads > 0 ? freed : taken) += 1; }
  int told = 0;
  std::atomic<int> freed{0}, taken{0};
};

TEST(JoinMachines, AReceiverThatHasYetToJoinIsNotLost) {
  // Rank 1, who receives what rank 3 sends, has not joined, and holds no lock therefore: rank 0
  // must wait for it until the deadline.
  auto memory = WorldMemory::create(4, /*locks=*/true).value();
  for (int r : {2, 3}) memory->entry(r).state = RankState::joined;
  const auto network = std::make_shared<Silence>();
  const Machines machines({0, 0, 2, 2}, 0);
  const auto world = take_seat({.memory = memory,
                                .machines = machines,
                                .rank = 0,
                                .link = {},
                                .inbox = std::make_shared<Inbox>(memory, machines, 0),
                                .remote = network},
                               std::chrono::milliseconds(300));
  ASSERT_TRUE(world.ok()) << world.status().message();
  const Status joined = join_machines(**world);
  EXPECT_EQ(joined.code(), StatusCode::kTimeout) << joined.message();
  EXPECT_GT(network->told, 0);
  // While it slept its core was free for whoever serves the network.
  EXPECT_EQ(network->freed, 1);
  EXPECT_EQ(network->taken, 1);
}

/// A network within this process: what a rank tells a machine, the receiver there acts on at once,
/// or, while `holding`, later.
class Loopback final : public Remote {
 public:
  Loopback(int rank, const Machines& machines, std::span<const std::shared_ptr<Inbox>> inboxes)
      : rank_(rank), machines_(machines), inboxes_(inboxes.begin(), inboxes.end()) {}
  void tell(int machine, Note note, std::span<const std::byte> text) override {
    note.text_bytes = static_cast<std::uint32_t>(text.size());
    held_.push_back({machine, note, {text.begin(), text.end()}});
    if (!holding) deliver();
  }
  void ship(int, const Cargo&, CargoSource) override {}
  void set_pace(bool) override {}
  void core_freed(int) override {}
  void deliver() {
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    for (const Held& h : held_) {
      const auto receiver = static_cast<std::size_t>(machines_.receiver(h.machine, rank_));
      EXPECT_TRUE(inboxes_[receiver]->act(rank_, h.note, h.text));
    }
    held_.clear();
  }
  std::atomic<bool> holding{false};

 private:
  struct Held {
    int machine;
    Note note;
    std::vector<std::byte> text;
  };
  int rank_;
  Machines machines_;
  std::vector<std::shared_ptr<Inbox>> inboxes_;
  std::vector<Held> held_;
};

TEST(JoinMachines, WhoLeavesAFailedWindowIsNotTakenForTheCulprit) {
  // Ranks 0 and 2 are on one machine, rank 1 on another. Rank 2 finds a mismatch and publishes it;
  // rank 0 sees that and leaves. On the way to rank 1 the news of rank 2 is slower.
  const std::vector<int> leader_of{0, 1, 0};
  const auto here = WorldMemory::create(3, /*locks=*/false).value();
  const auto there = WorldMemory::create(3, /*locks=*/false).value();
  here->entry(1).state = RankState::joined;
  for (int r : {0, 2}) there->entry(r).state = RankState::joined;
  std::vector<std::shared_ptr<Inbox>> inboxes;
  for (int r = 0; r < 3; ++r) {
    inboxes.push_back(std::make_shared<Inbox>(r == 1 ? there : here, Machines(leader_of, r), r));
  }
  std::vector<std::shared_ptr<Loopback>> networks;
  for (int r = 0; r < 3; ++r) {
    networks.push_back(std::make_shared<Loopback>(r, Machines(leader_of, r), inboxes));
  }
  Status seen;
  std::atomic<bool> answered{false};
  std::vector<std::thread> ranks;
  for (int r = 0; r < 3; ++r) {
    ranks.emplace_back([&, r] {
      const auto i = static_cast<std::size_t>(r);
      auto world = take_seat({.memory = r == 1 ? there : here,
                              .machines = Machines(leader_of, r),
                              .rank = r,
                              .link = {},
                              .inbox = inboxes[i],
                              .remote = networks[i]},
                             std::chrono::seconds(30));
      ASSERT_TRUE(world.ok()) << world.status().message();
      const Status joined = join_machines(**world);
      ASSERT_TRUE(joined.ok()) << joined.message();
      auto window = (*world)->create_window({.bytes = 4096, .counters = 1});
      ASSERT_TRUE(window.ok()) << window.status().message();
      const auto deadline = platform::Deadline::after(std::chrono::seconds(30));
      const auto until = [&](const auto& done) {
        while (!done() && !deadline.passed()) std::this_thread::yield();
      };
      if (r == 0) until([&] { return !(*window)->failure().ok(); });
      if (r == 1) {
        seen = (*window)->wait_until(0, 1, {.rank = 0, .expected = 1}, deadline);
        answered = true;
      }
      if (r == 2) {
        networks[2]->holding = true;
        (void)(*window)->fail({StatusCode::kMismatch, "what rank 2 found"});
        until([&] { return answered.load(); });
        networks[2]->holding = false;
        networks[2]->deliver();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(seen.code(), StatusCode::kMismatch) << seen.message();
}

}  // namespace
}  // namespace tandem::symm
