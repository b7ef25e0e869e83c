// SPDX-License-Identifier: Apache-2.0
//
// World::from_environment(): every way in which the variables of a launch can be wrong, and those
// of other launchers.
#include <chrono>
#include <cstdlib>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "tandem/world.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FromEnvironment : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name :
         {"TANDEM_RANK", "TANDEM_SIZE", "TANDEM_FD", "TANDEM_TIMEOUT_MS", "OMPI_COMM_WORLD_SIZE",
          "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "PMI_SIZE",
          "PMI_RANK", "PMIX_RANK", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",
          "SLURM_STEP_ID", "WORLD_SIZE", "RANK"}) {
      unsetenv(name);
    }
  }
  static void set(const char* rank, const char* size, const char* fd) {
    setenv("TANDEM_RANK", rank, 1);
    setenv("TANDEM_SIZE", size, 1);
    setenv("TANDEM_FD", fd, 1);
  }
  static std::string message() {
    auto world = World::from_environment();
    EXPECT_FALSE(world.ok());
    return world.status().message();
  }
};

TEST_F(FromEnvironment, WithoutVariablesTheWorldIsThisProcess) {
  auto world = World::from_environment();
  ASSERT_TRUE(world.ok());
  EXPECT_EQ(world->rank(), 0);
  EXPECT_EQ(world->size(), 1);
  EXPECT_TRUE(world->barrier().ok());
}

TEST_F(FromEnvironment, TimeoutIsRead) {
  setenv("TANDEM_TIMEOUT_MS", "1234", 1);
  auto world = World::from_environment();
  ASSERT_TRUE(world.ok());
  EXPECT_EQ(world->timeout(), std::chrono::milliseconds(1234));
  for (const char* text : {"soon", "0", "-1", "1e3"}) {
    setenv("TANDEM_TIMEOUT_MS", text, 1);
    EXPECT_THAT(message(), HasSubstr(std::string("TANDEM_TIMEOUT_MS is '") + text + "'"));
  }
}

TEST_F(FromEnvironment, TheLongestTimeoutWaitsAndDoesNotEndAtOnce) {
  const std::string longest = std::to_string(std::chrono::milliseconds::max().count());
  setenv("TANDEM_TIMEOUT_MS", longest.c_str(), 1);
  auto world = World::from_environment();
  ASSERT_TRUE(world.ok()) << world.status().message();
  EXPECT_EQ(world->timeout(), std::chrono::milliseconds::max());
  EXPECT_TRUE(world->barrier().ok());
  setenv("TANDEM_TIMEOUT_MS", (longest + "0").c_str(), 1);
  EXPECT_THAT(message(), HasSubstr("1.." + longest));
}

TEST_F(FromEnvironment, AllThreeVariablesOrNone) {
  setenv("TANDEM_RANK", "0", 1);
  EXPECT_THAT(message(), HasSubstr("TANDEM_SIZE is missing"));
  setenv("TANDEM_SIZE", "1", 1);
  EXPECT_THAT(message(), HasSubstr("TANDEM_FD is missing"));
}

TEST_F(FromEnvironment, NumbersAreChecked) {
  set("0", "many", "3");
  EXPECT_THAT(message(), HasSubstr("TANDEM_SIZE is 'many'"));
  set("0", "65", "3");
  EXPECT_THAT(message(), HasSubstr("1..64"));
  set("2", "2", "3");
  EXPECT_THAT(message(), HasSubstr("TANDEM_RANK is '2', expected an integer in 0..1"));
  set("0", "2", "x");
  EXPECT_THAT(message(), HasSubstr("TANDEM_FD is 'x'"));
  for (const char* fd : {"0", "1", "2", "-1"}) {
    set("0", "2", fd);
    EXPECT_THAT(message(), HasSubstr(std::string("TANDEM_FD is '") + fd + "'"));
  }
}

TEST_F(FromEnvironment, ADescriptorThatIsNoWorldIsNamed) {
  set("0", "2", "977");
  EXPECT_THAT(message(), AllOf(HasSubstr("descriptor 977"), HasSubstr("TANDEM_FD=977"),
                               HasSubstr("tandem launch")));
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  for (int fd : {pipe_ends[0], open("/", O_RDONLY), open("/dev/null", O_RDWR),
                 open("/proc/self/exe", O_RDONLY)}) {
    ASSERT_GE(fd, 3);
    set("0", "2", std::to_string(fd).c_str());
    EXPECT_THAT(message(), HasSubstr("descriptor " + std::to_string(fd)));
    close(fd);
  }
  close(pipe_ends[1]);
}

using Variables = std::vector<std::pair<const char*, const char*>>;

void set_all(const Variables& variables) {
  for (const auto& [name, value] : variables) setenv(name, value, 1);
}

TEST_F(FromEnvironment, OneOfSeveralOfAnotherLauncherIsRefused) {
  const std::vector<Variables> launched = {
      {{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"PMIX_RANK", "0"}},
      {{"MV2_COMM_WORLD_SIZE", "2"}, {"MV2_COMM_WORLD_RANK", "1"}},
      {{"PMI_SIZE", "3"}, {"PMI_RANK", "0"}},
      {{"WORLD_SIZE", "2"}, {"RANK", "0"}},
      {{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}},
      {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "2"}},
      {{"PMIX_RANK", "1"}},
  };
  for (const Variables& variables : launched) {
    clear();
    set_all(variables);
    const std::string text = message();
    EXPECT_THAT(text, HasSubstr(std::string(variables[0].first) + "=" + variables[0].second));
    for (const char* remedy : {"tandem::mpi::make_world()", "--transport mpi", "tandem launch",
                               "unset ", "World::threads(1)"}) {
      EXPECT_THAT(text, HasSubstr(remedy));
    }
    EXPECT_TRUE(World::threads(1).ok()) << "what is asked for by name is no accident";
  }
}

TEST_F(FromEnvironment, WhoIsAloneMayBeStartedByAnyone) {
  const std::vector<Variables> alone = {
      {{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"PMIX_RANK", "0"}},
      // mpirun -n 1 in a job of several nodes: its daemon is a task of srun's.
      {{"OMPI_COMM_WORLD_SIZE", "1"},
       {"OMPI_COMM_WORLD_RANK", "0"},
       {"SLURM_STEP_NUM_TASKS", "3"},
       {"SLURM_PROCID", "2"},
       {"SLURM_STEP_ID", "0"}},
      {{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}},
      {{"PMIX_RANK", "0"}},
      {{"WORLD_SIZE", "1"}, {"RANK", "0"}},
      {{"WORLD_SIZE", "many"}, {"RANK", "0"}},
      {{"WORLD_SIZE", "2"}},
      // A batch script and an interactive allocation: no srun started this process as a task.
      {{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}},
      {{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "4294967291"}},
      {{"SLURM_NTASKS", "8"},
       {"SLURM_STEP_NUM_TASKS", "1"},
       {"SLURM_PROCID", "0"},
       {"SLURM_STEP_ID", "0"}},
  };
  for (const Variables& variables : alone) {
    clear();
    set_all(variables);
    auto world = World::from_environment();
    EXPECT_TRUE(world.ok()) << variables[0].first << ": " << world.status().message();
  }
}

TEST_F(FromEnvironment, TheVariablesOfTandemLaunchWin) {
  set("0", "2", "977");
  set_all({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}});
  EXPECT_THAT(message(), HasSubstr("descriptor 977"));
}

}  // namespace
}  // namespace tandem
