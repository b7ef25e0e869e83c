// SPDX-License-Identifier: Apache-2.0
//
// Surroundings that lack something: standard streams that are closed, memfd_create() forbidden by
// a filter, no /proc. Each test changes a forked child; its exit code is a line of the test.
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/shared_memory.h"
#include "symm/world.h"
#include "tandem/launch.h"
#include "tests/symm/ranks.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::is_rank_process;

constexpr const char* kSkip = "skip";

/// What `work` returns in a forked child.
std::string in_child(const std::function<std::string()>& work) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const int out = fcntl(ends[1], F_DUPFD, 100);  // out of the way of what is tried
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    close(ends[1]);
    const std::string text = work();
    (void)!write(out, text.data(), text.size());
    _exit(0);
  }
  close(ends[1]);
  close(out);
  std::string text;
  char block[4096];
  for (ssize_t got = 0; (got = read(ends[0], block, sizeof block)) > 0;) {
    text.append(block, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int end = 0;
  EXPECT_EQ(waitpid(child, &end, 0), child);
  EXPECT_EQ(end, 0);
  return text;
}

/// From now on memfd_create() fails with this error.
bool forbid_memfd_create(int error) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = 4, .filter = code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(Surroundings, AForbiddenMemfdCreateIsNamed) {
  for (int error : {EPERM, ENOSYS}) {
    const std::string said = in_child([error]() -> std::string {
      if (!forbid_memfd_create(error)) return kSkip;
      auto worlds = World::threads(2);
      if (worlds.ok()) return "it worked";
      return std::string(name(worlds.status().code())) + ": " + worlds.status().message();
    });
    if (said == kSkip) GTEST_SKIP() << "no seccomp filters here";
    EXPECT_THAT(said, HasSubstr("io: "));
    EXPECT_THAT(said, HasSubstr("memfd_create"));
    EXPECT_THAT(said, HasSubstr("seccomp"));
  }
}

TEST(Surroundings, AMissingProcIsNamed) {
  const std::string said = in_child([]() -> std::string {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", "/proc", "tmpfs", 0, nullptr) != 0) {
      return kSkip;
    }
    auto meeting = symm::make_rendezvous(1);
    if (!meeting.ok()) return "no memory file: " + meeting.status().message();
    auto world = symm::join_world(0, 1, *meeting, milliseconds(1000));
    if (world.ok()) return "it worked";
    return std::string(name(world.status().code())) + ": " + world.status().message();
  });
  if (said == kSkip) GTEST_SKIP() << "no mount namespaces here (needs root)";
  EXPECT_THAT(said, HasSubstr("io: "));
  EXPECT_THAT(said, HasSubstr("/proc is missing"));
  EXPECT_THAT(said, HasSubstr("mount -t proc"));
}

/// A rank that was started with its standard streams closed: what it prints must not land in the
/// memory that ranks share, nor what it reads come from there.
int print_while_sharing() {
  auto world = World::from_environment();
  if (!world.ok()) return 10;
  symm::World& inner = *world->impl();
  for (int round = 0; round < 20; ++round) {
    auto window = inner.create_window({.bytes = 1 << 16, .counters = 1});
    if (!window.ok()) return 11;
    for (int i = 0; i < 100; ++i) {
      std::printf("rank %d prints a line that is long enough to do harm\n", world->rank());
      std::fprintf(stderr, "and complains\n");
    }
    std::fflush(stdout);
    char word[64];
    while (read(0, word, sizeof word) > 0) {
    }
    if (!world->barrier().ok()) return 12;
    for (int r = 0; r < world->size(); ++r) {
      for (std::size_t at = 0; at < 1 << 16; ++at) {
        if ((*window)->data(r)[at] != std::byte{0}) return 13;
      }
    }
  }
  return 0;
}

TEST(Surroundings, ClosedStandardStreamsDoNoHarm) {
  if (is_rank_process()) _exit(print_while_sharing());
  for (int closed : {1, 2, 4, 7}) {
    const std::string said = in_child([closed]() -> std::string {
      for (int fd = 0; fd <= 2; ++fd) {
        if ((closed & 1 << fd) != 0) close(fd);
      }
      auto report =
          launch({.size = 3,
                  .command = {"/proc/self/exe", "--gtest_filter=" + testing::current_test(),
                              "--gtest_brief=1"}});
      for (int fd = 0; fd <= 2; ++fd) {
        if ((closed & 1 << fd) != 0 && fcntl(fd, F_GETFD) >= 0) return "a descriptor was taken";
      }
      return report.ok() ? report->summary : report.status().message();
    });
    EXPECT_EQ(said, "") << "closed: " << closed;
  }
}

}  // namespace
}  // namespace tandem
