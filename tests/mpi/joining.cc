// SPDX-License-Identifier: Apache-2.0
//
// How worlds over MPI begin and end when things are not as they should be, one scenario per job:
//
//   joining late|absent|finalize|exhausted|denied|crowded|patient|refused|starved
//
// Exits with 0 when all went as it must. Run by tests/mpi/CMakeLists.txt under each MPI.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "symm/world.h"
#include "tandem/mpi.h"
#include "tandem/reference.h"
#include "tandem/tandem.h"

namespace {

using std::chrono::milliseconds;
using tandem::Result;
using tandem::Status;
using tandem::StatusCode;
using tandem::World;

int rank = 0, size = 1;
std::atomic<bool> deny_duplicates{false};
/// Counts down; the allocation that brings it to 0 fails. Of the thread that calls MPI.
std::atomic<int> bridge_allocations{0};

bool is_bridge() {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof name);
  return std::string_view(name).starts_with("tandem-mpi");
}

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
  // Through MPI, so that the others end too.
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void expect(bool right, const std::string& what) {
  if (!right) fail(what);
}

/// Every word of `words` is in the message.
void expect_error(const Status& status, StatusCode code, const std::vector<std::string>& words) {
  std::string all(name(status.code()));
  all += ": " + status.message();
  expect(status.code() == code, "the wrong code: " + all);
  for (const std::string& word : words) {
    expect(status.message().find(word) != std::string::npos, "no '" + word + "' in " + all);
  }
  if (rank == 0) std::printf("%s\n", all.c_str());
}

World make(milliseconds timeout = std::chrono::seconds(60)) {
  auto world = tandem::mpi::make_world(MPI_COMM_WORLD, {.timeout = timeout});
  if (!world.ok()) fail("no world: " + world.status().message());
  return *world;
}

/// A call of an operator; whatever it multiplies.
struct Multiply {
  explicit Multiply(const World& world)
      : a(64 * 32, 0), c(static_cast<std::size_t>(64 * size * 16)) {
    std::vector<float> b(32 * 16, 1.0f);
    auto packed = tandem::PackedWeights::pack(
        {.data = b.data(), .type = tandem::DType::f32, .rows = 32, .cols = 16, .stride = 16}, {});
    if (!packed.ok()) fail(packed.status().message());
    weights.emplace(std::move(*packed));
    auto made = tandem::AllGatherGemm::create(
        world, *weights, {.max_rows = 64, .timeout = std::chrono::seconds(60)});
    if (!made.ok()) fail(made.status().message());
    op.emplace(std::move(made).value());
  }
  Status run() {
    const std::vector<std::int64_t> rows(static_cast<std::size_t>(size), 64);
    return op->run({.a = {a.data(), tandem::DType::f32, 64, 32, 32},
                    .c = {c.data(), tandem::DType::f32, 64 * size, 16, 16},
                    .rows = rows});
  }
  std::vector<float> a, c;
  std::optional<tandem::PackedWeights> weights;
  std::optional<tandem::AllGatherGemm> op;
};

/// The last rank comes only when the others have given up: were it awaited, nobody would go on.
void late() {
  const int last = size - 1;
  const auto join = [&] {
    return tandem::mpi::make_world(MPI_COMM_WORLD, {.timeout = milliseconds(1000)}).status();
  };
  int given_up = 0;
  if (rank == last) {
    for (int r = 0; r < last; ++r) {
      MPI_Recv(&given_up, 1, MPI_INT, r, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    expect_error(join(), StatusCode::kTimeout,
                 {"rank ", "gave up", "rank " + std::to_string(last)});
  } else {
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    expect_error(join(), StatusCode::kTimeout, {"rank " + std::to_string(last), host, "127.0.0.1"});
    MPI_Send(&given_up, 1, MPI_INT, last, 1, MPI_COMM_WORLD);
  }
  // Nothing of that is in the way of the next attempt.
  const World world = make();
  expect(Multiply(world).run().ok(), "a world after a failed attempt does not work");
}

/// The last rank never comes.
void absent() {
  if (rank < size - 1) {
    const auto world = tandem::mpi::make_world(MPI_COMM_WORLD, {.timeout = milliseconds(300)});
    expect_error(world.status(), StatusCode::kTimeout, {"rank " + std::to_string(size - 1)});
  }
}

std::optional<World> long_lived;
std::optional<Multiply> long_lived_operator;

/// The world ends after MPI_Finalize().
void finalize() {
  long_lived = make();
  long_lived_operator.emplace(*long_lived);
  expect(long_lived_operator->run().ok(), "no product");
  MPI_Finalize();
  expect(!long_lived_operator->run().ok(), "a product after MPI_Finalize()");
  long_lived_operator.reset();
  long_lived.reset();
  std::exit(0);
}

/// MPI has no communicators left: those of one process take them all.
void exhausted() {
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  std::vector<MPI_Comm> all;
  for (MPI_Comm made = MPI_COMM_NULL; all.size() < 100000;) {
    if (MPI_Comm_dup(MPI_COMM_SELF, &made) != MPI_SUCCESS) break;
    all.push_back(made);
  }
  const auto world = tandem::mpi::make_world(MPI_COMM_WORLD, {.timeout = milliseconds(20000)});
  expect_error(world.status(), StatusCode::kIo, {"no communicators left", "MPI_Comm_free"});
  for (MPI_Comm& comm : all) MPI_Comm_free(&comm);
  expect(Multiply(make()).run().ok(), "no world with communicators again");
}

/// MPI denies one rank the duplicate.
void denied() {
  deny_duplicates = rank == 0;
  const auto world = tandem::mpi::make_world(MPI_COMM_WORLD, {.timeout = milliseconds(1000)});
  if (rank == 0) expect_error(world.status(), StatusCode::kIo, {"no communicators left"});
  expect(!world.ok(), "a world without a communicator");
}

/// Somebody connects to all local sockets of the library, so that their queues are full: other
/// processes can, since the names stand in /proc/net/unix.
class Crowd {
 public:
  Crowd() : thread_([this](const std::stop_token& stop) { knock(stop); }) {}
  [[nodiscard]] int knocks() const { return knocks_; }

 private:
  void knock(const std::stop_token& stop) {
    constexpr std::size_t kMost = 400;
    std::vector<int> open;
    while (!stop.stop_requested()) {
      std::ifstream sockets("/proc/net/unix");
      for (std::string line; std::getline(sockets, line);) {
        const std::size_t at = line.find("@tandem-");
        if (at == std::string::npos) continue;
        sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
        const std::string name = line.substr(at + 1);
        std::memcpy(address.sun_path + 1, name.data(), name.size());
        const auto length =
            static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
        for (int i = 0; i < 200; ++i) {
          const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
          if (fd < 0) break;
          if (connect(fd, reinterpret_cast<sockaddr*>(&address), length) != 0) {
            close(fd);
            break;
          }
          ++knocks_;
          open.push_back(fd);
        }
      }
      if (open.size() < kMost) continue;
      for (int fd : open) close(fd);
      open.clear();
    }
    for (int fd : open) close(fd);
  }
  std::atomic<int> knocks_{0};
  std::jthread thread_;
};

void crowded() {
  std::optional<Crowd> crowd;
  if (rank == 0) crowd.emplace();
  for (int i = 0; i < 20; ++i) {
    const World world = make();
    const int machines = world.impl()->machines().count();
    expect(machines == 1, "one machine was split into " + std::to_string(machines));
  }
  expect(!crowd || crowd->knocks() > 100, "nobody knocked");
}

/// On rank 0 the thread that calls MPI runs out of memory at its n-th allocation from now, for
/// every n: all ranks get an error at once, since there is memory for last words, and none hangs or
/// dies.
void starved() {
  for (int n = 1; n <= 24; ++n) {
    const World world = make();
    Multiply multiply(world);
    expect(multiply.run().ok(), "no product");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) bridge_allocations = n;
    Status status;
    for (int i = 0; status.ok() && i < 10000; ++i) status = multiply.run();
    bridge_allocations = 0;
    expect(!status.ok(), "nothing failed");
    expect(status.code() != StatusCode::kTimeout, "not told: " + status.message());
  }
}

/// The longest timeout there is.
void patient() {
  const World world = make(milliseconds::max());
  expect(Multiply(world).run().ok(), "no product");
}

/// One rank's own arguments are wrong: the others hear it at once, and may all try again.
void refused() {
  const auto timeout = rank == 1 ? milliseconds(-5) : milliseconds(60000);
  const auto world = tandem::mpi::make_world(MPI_COMM_WORLD, {.timeout = timeout});
  expect_error(world.status(), StatusCode::kInvalidArgument, {"the timeout is -5 ms"});
  if (rank != 1) expect_error(world.status(), StatusCode::kInvalidArgument, {"rank 1"});
  expect(Multiply(make()).run().ok(), "no world after a refusal");
}

}  // namespace

#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // of malloc and free, inlined
void* operator new(std::size_t bytes) {
  if (bridge_allocations > 0 && is_bridge() && bridge_allocations.fetch_sub(1) == 1) {
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

/// In place of MPI's own: every MPI lets a program do that.
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* made, MPI_Request* request) {
  return deny_duplicates ? MPI_ERR_OTHER : PMPI_Comm_idup(comm, made, request);
}

int main(int argc, char** argv) {
  int granted = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string_view scenario = argc == 2 ? argv[1] : "";
  const struct {
    std::string_view name;
    void (*run)();
  } scenarios[] = {{"late", late},           {"absent", absent},   {"finalize", finalize},
                   {"exhausted", exhausted}, {"denied", denied},   {"crowded", crowded},
                   {"patient", patient},     {"refused", refused}, {"starved", starved}};
  bool known = false;
  for (const auto& [name, run] : scenarios) {
    if (name != scenario) continue;
    known = true;
    run();
  }
  expect(known, "which scenario?");
  MPI_Finalize();
  return 0;
}
