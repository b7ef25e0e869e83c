// SPDX-License-Identifier: Apache-2.0
//
// What comes from the network is not trusted: rank 0 of MPI sends itself, by hand, what no Tandem
// would send, and Incoming has to refuse it in bounded memory. And Outgoing with no memory left
// throws nothing at those who tell it something.
#include <cstring>
#include <memory>
#include <new>
#include <thread>

#include <gtest/gtest.h>
#include <mpi.h>

#include "mpi/incoming.h"
#include "mpi/outgoing.h"
#include "symm/world_memory.h"

namespace {
// Bytes that operator new still gives to this thread; negative: no limit.
thread_local long long allowance = -1;
}  // namespace

#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // of malloc and free, inlined
void* operator new(std::size_t bytes) {
  if (allowance >= 0) {
    if (static_cast<long long>(bytes) > allowance) throw std::bad_alloc();
    allowance -= static_cast<long long>(bytes);
  }
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tandem::mpi {
namespace {

constexpr std::uint64_t kPieceBytes = 1000;

/// Rank 0 is on another machine, rank 1 is this one: it receives what 0 sends.
class WireTest : public testing::Test {
 protected:
  WireTest() {
    MPI_Comm_dup(MPI_COMM_SELF, &comm_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    for (int r : {0, 1}) memory_->entry(r).state = symm::RankState::joined;
    window_ = symm::WindowMemory::open(memory_, machines_, spec_, 1, offset_).value();
    inbox_.open(window_);
    requests_ = std::make_unique<Requests>(comm_);
  }
  ~WireTest() override {
    const bool clean = requests_->withdraw();
    if (clean) MPI_Comm_free(&comm_);
  }

  void append(symm::Note note, std::span<const std::byte> text) {
    note.text_bytes = static_cast<std::uint32_t>(text.size());
    const auto bytes = symm::bytes_of(note);
    sent_.insert(sent_.end(), bytes.begin(), bytes.end());
    sent_.insert(sent_.end(), text.begin(), text.end());
    sent_.resize((sent_.size() + 7) / 8 * 8);
  }
  void announce(const symm::Cargo& cargo) {
    append({.kind = symm::NoteKind::cargo, .window = cargo.window}, symm::bytes_of(cargo));
  }
  /// Sends the notes, and looks until the receiver has taken them or refuses to go on.
  Status deliver() {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Issend(sent_.data(), static_cast<int>(sent_.size()), MPI_BYTE, 0, kNotes, comm_, &request);
    int taken = 0;
    Status status;
    while (status.ok() && taken == 0) {
      status = look();
      MPI_Test(&request, &taken, MPI_STATUS_IGNORE);
    }
    for (int i = 0; status.ok() && i < 20; ++i) status = look();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    sent_.clear();
    return status;
  }
  Status look() {
    Status status = incoming_.post(*requests_, inbox_);
    if (status.ok()) status = requests_->poll().status();
    return status;
  }
  /// Sends one piece of cargo.
  void send(const std::vector<std::byte>& piece) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Issend(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, 0, kCargo, comm_, &request);
    for (int taken = 0; taken == 0;) {
      ASSERT_TRUE(look().ok());
      MPI_Test(&request, &taken, MPI_STATUS_IGNORE);
    }
    ASSERT_TRUE(look().ok());
  }
  [[nodiscard]] symm::Cargo cargo() const {
    return {.window = offset_, .peers = 2, .part = 0, .to_pitch = 100, .row_bytes = 100, .rows = 5};
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::shared_ptr<symm::WorldMemory> memory_ = symm::WorldMemory::create(2, false).value();
  const symm::Machines machines_{{0, 1}, 1};
  const symm::WindowSpec spec_{.bytes = 8192, .counters = 2, .mirror_bytes = 8192};
  const std::size_t offset_ = symm::WorldMemory::control_bytes();
  std::shared_ptr<symm::WindowMemory> window_;
  symm::Inbox inbox_{memory_, machines_, 1};
  std::unique_ptr<Requests> requests_;
  Incoming incoming_{0, kPieceBytes};
  std::vector<std::byte> sent_;
};

TEST_F(WireTest, CargoLandsWhereItWasAnnounced) {
  announce(cargo());
  ASSERT_TRUE(deliver().ok());
  send(std::vector<std::byte>(500, std::byte{7}));
  EXPECT_EQ(window_->data(0)[499], std::byte{7});
  EXPECT_EQ(window_->read(1, 0), 1u);
}

TEST_F(WireTest, AnAnnouncementOfTerabytesCostsNoMemory) {
  // It fits no window that is open here, and the other is closed: then its bytes would be received.
  symm::Cargo huge = cargo();
  huge.row_bytes = 1;
  huge.rows = std::int64_t{1} << 40;
  huge.window = offset_ + 4096;
  announce(huge);
  allowance = 1 << 20;  // as a list its pieces are 32 GiB
  const Status closed = deliver();
  allowance = -1;
  EXPECT_TRUE(closed.ok()) << closed.message();
  huge.window = offset_;
  announce(huge);
  EXPECT_EQ(deliver().code(), StatusCode::kInternal);
}

TEST_F(WireTest, UnwantedPiecesOfGrowingLengthStayWithinTheirMemory) {
  // Rows of 300 bytes go in pieces of 900, and the last has 300; then one of 1000, and extra bytes.
  symm::Cargo first = cargo(), second = cargo();
  first.window = second.window = offset_ + 4096;
  first.row_bytes = 10;
  first.rows = 1;
  second.row_bytes = 300;
  second.rows = 4;
  second.extra_bytes = 1500;
  announce(first);
  announce(second);
  announce(cargo());
  ASSERT_TRUE(deliver().ok());
  for (const std::size_t bytes : {10UL, 900UL, 300UL, 1000UL, 500UL})
    send(std::vector<std::byte>(bytes));
  send(std::vector<std::byte>(500, std::byte{9}));  // what is wanted comes after
  EXPECT_EQ(window_->data(0)[0], std::byte{9});
  EXPECT_EQ(window_->read(1, 0), 1u);
}

TEST_F(WireTest, APieceThatIsShorterThanAnnouncedIsNotTakenForAll) {
  announce(cargo());
  ASSERT_TRUE(deliver().ok());
  const std::vector<std::byte> piece(10);
  MPI_Send(piece.data(), 10, MPI_BYTE, 0, kCargo, comm_);
  Status status;
  for (int i = 0; status.ok() && i < 1000; ++i) status = look();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_EQ(window_->read(1, 0), 0u);
}

TEST_F(WireTest, NonsenseIsRefused) {
  append({.kind = static_cast<symm::NoteKind>(99)}, {});
  EXPECT_EQ(deliver().code(), StatusCode::kInternal);
}

TEST_F(WireTest, ATextThatEndsBehindTheMessageIsRefused) {
  append({.kind = symm::NoteKind::put, .window = offset_, .peer = 1}, {});
  const std::uint32_t length = ~std::uint32_t{0} - 3;
  std::memcpy(sent_.data() + offsetof(symm::Note, text_bytes), &length, sizeof length);
  EXPECT_EQ(deliver().code(), StatusCode::kInternal);
}

TEST(Outgoing, ThrowsNothingWhereMemoryIsShort) {
  // Whatever the allocation that fails: nothing is thrown, and whoever sends is told.
  for (long long left : {0, 100, 200, 400, 800, 1600}) {
    const auto memory = symm::WorldMemory::create(2, false).value();
    symm::Inbox inbox(memory, symm::Machines({0, 1}, 1), 1);
    Requests requests(MPI_COMM_SELF);
    Outgoing outgoing(MPI_COMM_SELF, 0, {.piece = kPieceBytes, .under_way = 1 << 20});
    const symm::Cargo cargo{.row_bytes = 8, .rows = 8};
    allowance = left;
    for (int i = 0; i < 100; ++i) {
      outgoing.tell({}, {});
      outgoing.ship(cargo, {});
    }
    allowance = -1;
    EXPECT_EQ(outgoing.post(requests, inbox).status().code(), StatusCode::kOutOfMemory) << left;
  }
}

TEST_F(WireTest, LastWordsNeedNoMemory) {
  const Status why(StatusCode::kOutOfMemory, "out of memory");
  Outgoing outgoing(comm_, 0, {.piece = kPieceBytes, .under_way = 1 << 20});
  allowance = 0;
  outgoing.break_off(why);
  allowance = -1;
  while (!outgoing.last_words_sent()) ASSERT_TRUE(look().ok());
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(look().ok());
  EXPECT_EQ(memory_->failure().read().code(), why.code());
  EXPECT_EQ(window_->failure().read().code(), why.code());
}

}  // namespace
}  // namespace tandem::mpi

int main(int argc, char** argv) {
  int granted = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  MPI_Finalize();
  return failed;
}
