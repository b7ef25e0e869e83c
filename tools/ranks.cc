// SPDX-License-Identifier: Apache-2.0
//
// The three kinds of ranks. Process ranks report through a file without a name that the starting
// process holds open: so it can say once what several ranks say, and print nothing of a result
// that another rank spoils. Start reading at run_ranks().
#include "ranks.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "mpi_ranks.h"
#include "tandem/launch.h"
#include "tandem/system.h"

namespace tandem::tool {
namespace {

/// Tells a rank where its starter reads outcomes.
constexpr const char* kOutcomesVariable = "TANDEM_OUTCOMES";

/// What the body returns, or `no_memory`.
Outcome guarded(const RankBody& body, const World& world, Outcome no_memory) {
  try {
    return body(world);
  } catch (const std::bad_alloc&) {
    return no_memory;
  }
}

Outcome on_threads(const Job& job, const RankBody& body, std::chrono::milliseconds timeout) {
  auto worlds = World::threads(job.ranks, {.timeout = timeout});
  if (!worlds.ok()) return failed(worlds.status());
  std::vector<std::optional<Outcome>> outcomes(worlds->size());
  std::vector<std::thread> threads;
  threads.reserve(worlds->size());
  std::error_code no_thread;
  for (std::size_t r = 0; r < worlds->size() && !no_thread; ++r) {
    try {
      // The handle goes with its thread: a rank that ends early must be seen to have left.
      threads.emplace_back([&body, &outcome = outcomes[r], world = std::move((*worlds)[r]),
                            no_memory = out_of_memory()]() mutable {
        outcome = guarded(body, world, std::move(no_memory));
      });
    } catch (const std::system_error& error) {
      no_thread = error.code();
    } catch (const std::bad_alloc&) {
      no_thread = std::make_error_code(std::errc::not_enough_memory);
    }
  }
  // The ranks that have a thread see that the others have left.
  const std::size_t started = threads.size();
  if (no_thread) worlds->clear();
  for (std::thread& thread : threads) thread.join();
  if (!no_thread) return merge(outcomes);
  return failed({StatusCode::kOutOfMemory,
                 fmt::format("cannot start a thread for rank {}: {}; raise `ulimit -u` or use "
                             "fewer ranks",
                             started, no_thread.message())});
}

/// Whether the starter of this rank received the outcome: a line of numbers, then the texts.
bool report(int rank, const Outcome& o) {
  const char* path = std::getenv(kOutcomesVariable);
  if (path == nullptr) return false;
  const File file(std::fopen(path, "a"));
  if (!file) return false;
  const std::string record =
      fmt::format("{} {} {} {} {}\n{}{}{}", rank, o.exit_code, o.kind.size(), o.message.size(),
                  o.output.size(), o.kind, o.message, o.output);
  // Unbuffered, one write: the records of several ranks do not mix.
  std::setvbuf(file.get(), nullptr, _IONBF, 0);
  return std::fwrite(record.data(), 1, record.size(), file.get()) == record.size();
}

std::vector<std::optional<Outcome>> read_outcomes(std::FILE* file, int ranks) {
  std::vector<std::optional<Outcome>> outcomes(static_cast<std::size_t>(ranks));
  std::rewind(file);
  int rank = 0, code = 0;
  std::size_t kind = 0, message = 0, output = 0;
  while (std::fscanf(file, "%d %d %zu %zu %zu", &rank, &code, &kind, &message, &output) == 5 &&
         std::getc(file) == '\n') {
    const auto text = [file](std::size_t size) {
      std::string read(size, '\0');
      read.resize(std::fread(read.data(), 1, size, file));
      return read;
    };
    Outcome outcome{.exit_code = code};
    outcome.kind = text(kind);
    outcome.message = text(message);
    outcome.output = text(output);
    if (rank >= 0 && rank < ranks) outcomes[static_cast<std::size_t>(rank)] = std::move(outcome);
  }
  return outcomes;
}

Outcome as_rank(const Job& job, const RankBody& body) {
  auto world =
      job.timeout ? World::from_environment({.timeout = *job.timeout}) : World::from_environment();
  const char* variable = std::getenv("TANDEM_RANK");
  const int rank = world.ok() ? world->rank() : std::atoi(variable == nullptr ? "0" : variable);
  Outcome outcome = world.ok() ? guarded(body, *world, out_of_memory()) : failed(world.status());
  outcome.delivered = report(rank, outcome);
  if (rank != 0) outcome.output.clear();
  return outcome;
}

/// The signal that a user ended the job with: every rank that failed was ended by it, or was killed
/// since it went on.
int interruption(const LaunchReport& report) {
  int signal = 0;
  for (const RankExit& exit : report.exits) {
    if (exit.code == 0) continue;
    const bool asked = exit.signal == SIGINT || exit.signal == SIGTERM || exit.signal == SIGHUP ||
                       exit.signal == SIGQUIT;
    const bool escalated =
        report.interrupted != 0 && (exit.signal == SIGTERM || exit.signal == SIGKILL);
    const int reason = escalated ? report.interrupted : exit.signal;
    if (!(asked || escalated) || (signal != 0 && signal != reason)) return 0;
    signal = reason;
  }
  return signal;
}

Outcome on_processes(const Job& job, const std::vector<std::string>& arguments) {
  std::error_code error;
  const Path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return failed({StatusCode::kIo,
                   fmt::format("cannot read /proc/self/exe: {}; ranks that are processes need "
                               "/proc: mount it with `mount -t proc proc /proc`, or use "
                               "--ranks-as thread",
                               error.message())});
  }
  const File outcomes_file(std::tmpfile());

  LaunchSpec spec;
  spec.size = job.ranks;
  // Ranks that fit get cores of their own, as MPI's launchers do it: otherwise a lane that wakes
  // can push two ranks' compute threads onto one core.
  const auto cpus = static_cast<int>(system_info().affinity.size());
  if (job.ranks * job.compute_threads <= cpus) spec.bind = Bind::core;
  spec.devices = job.devices;
  spec.command = {self.string()};
  spec.command.insert(spec.command.end(), arguments.begin(), arguments.end());
  // Bound to its cores, a rank would take those to be what all ranks share.
  if (job.default_threads) {
    spec.command.insert(spec.command.end(),
                        {"--compute-threads", std::to_string(job.compute_threads)});
  }
  if (outcomes_file) {
    spec.environment.push_back(
        fmt::format("{}=/proc/{}/fd/{}", kOutcomesVariable, getpid(), fileno(outcomes_file.get())));
  }
  auto report = launch(spec);
  if (!report.ok()) return failed(report.status());
  if (const int signal = interruption(*report); signal != 0) {
    return {.exit_code = 128 + signal,
            .kind = "interrupted",
            .message = fmt::format("interrupted by signal {} ({})", signal, strsignal(signal))};
  }
  if (!outcomes_file) return {.exit_code = std::min<int>(report->exit_code, kExitFailure)};

  auto outcomes = read_outcomes(outcomes_file.get(), job.ranks);
  for (const RankExit& exit : report->exits) {
    auto& outcome = outcomes[static_cast<std::size_t>(exit.rank)];
    // A signal after the last word (the end of a group that failed) says nothing new.
    if (exit.code == 0 || (outcome && outcome->exit_code != kExitOk)) continue;
    outcome = Outcome{.exit_code = kExitFailure,
                      .kind = "killed",
                      .message = exit.signal != 0
                                     ? fmt::format("its process was killed by signal {} ({})",
                                                   exit.signal, strsignal(exit.signal))
                                     : fmt::format("its process ended with code {}", exit.code)};
  }
  return merge(outcomes);
}

}  // namespace

Outcome run_ranks(const Job& job, const std::vector<std::string>& arguments, double bytes,
                  const RankBody& body) {
  if (job.transport.kind == TransportKind::mpi) return on_mpi(job, body);
  auto launched = launched_size();
  if (!launched.ok()) return failed(launched.status());
  if (*launched) return as_rank(job, body);
  // The library knows every way in which a process can be one of several.
  const auto alone = World::from_environment();
  if (!alone.ok()) return failed(alone.status());
  if (Status s = check_memory(job, bytes, job.processes()); !s.ok()) return failed(s);
  return job.thread_ranks ? on_threads(job, body, job.timeout.value_or(alone->timeout()))
                          : on_processes(job, arguments);
}

std::optional<Outcome> agree(const World& world, const Status& own) {
  const auto all = world.all_gather(exit_code_of(own.code()));
  if (!own.ok()) return failed(own);
  if (!all.ok()) return failed(all.status());
  const int worst = static_cast<int>(*std::max_element(all->begin(), all->end()));
  if (worst == kExitOk) return std::nullopt;
  return Outcome{.exit_code = worst};
}

}  // namespace tandem::tool
