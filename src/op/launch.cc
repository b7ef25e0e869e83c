// SPDX-License-Identifier: Apache-2.0
//
// launch(): makes the memory file, starts the ranks on their cores, waits, passes signals on, and
// ends the others when one fails (supervision.h). Start reading at launch_ranks().
#include "tandem/launch.h"

#include <algorithm>
#include <atomic>
#include <iterator>

#include <fmt/format.h>

#include "base/guarded.h"
#include "op/supervision.h"
#include "platform/process.h"
#include "platform/process_group.h"
#include "platform/shared_memory.h"
#include "platform/signal_inbox.h"
#include "platform/topology.h"
#include "symm/world.h"
#include "tandem/world.h"

namespace tandem {
namespace {

struct Descriptor {
  explicit Descriptor(int number) : fd(number) {}
  ~Descriptor() { platform::close_descriptor(fd); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  const int fd;
};

/// Those groups of hardware threads of which something is allowed, cut down to what is.
std::vector<std::vector<int>> allowed_part(const std::vector<std::vector<int>>& groups) {
  const std::vector<int> allowed = platform::allowed_cpus();
  std::vector<std::vector<int>> usable;
  for (const std::vector<int>& group : groups) {
    std::vector<int> some;
    std::set_intersection(group.begin(), group.end(), allowed.begin(), allowed.end(),
                          std::back_inserter(some));
    if (!some.empty()) usable.push_back(std::move(some));
  }
  return usable;
}

std::vector<std::vector<int>> device_groups() {
  auto nodes = allowed_part(platform::topology().nodes);
  return nodes.size() > 1 ? nodes : allowed_part(platform::topology().cores);
}

/// Hardware threads of each rank, empty = anywhere.
std::vector<std::vector<int>> places(Bind bind, int size) {
  std::vector<std::vector<int>> of_rank(static_cast<std::size_t>(size));
  if (bind == Bind::none) return of_rank;
  const bool numa = bind == Bind::numa;
  const auto groups = allowed_part(numa ? platform::topology().nodes : platform::topology().cores);
  const std::size_t count = groups.size();
  const std::size_t ranks = of_rank.size();
  if (count == 0) return of_rank;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (numa || ranks >= count) {
      of_rank[r] = groups[r % count];
      continue;
    }
    for (std::size_t g = count * r / ranks; g < count * (r + 1) / ranks; ++g) {
      of_rank[r].insert(of_rank[r].end(), groups[g].begin(), groups[g].end());
    }
  }
  return of_rank;
}

Status check(const LaunchSpec& spec) {
  if (spec.size < 1 || spec.size > kMaxRanks) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} ranks were asked for; 1..{} are possible", spec.size, kMaxRanks)};
  }
  if (spec.command.empty() || spec.command.front().empty()) {
    return {StatusCode::kInvalidArgument, "the command is empty; name a program to start"};
  }
  for (const std::string& text : spec.environment) {
    if (text.find('=') == 0 || text.find('=') == std::string::npos) {
      return {StatusCode::kInvalidArgument,
              fmt::format("environment entry '{}' is not of the form NAME=value", text)};
    }
  }
  if (spec.devices.empty()) return {};
  if (static_cast<int>(spec.devices.size()) != spec.size) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} devices were named for {} ranks; name one for each",
                        spec.devices.size(), spec.size)};
  }
  return check_devices(spec.devices);
}

/// Signals have one reaction per process, so one launch() has them. A forked child begins anew.
class OnlyLaunch {
 public:
  OnlyLaunch() {
    int other = process_.load();
    while (other != own_ && !process_.compare_exchange_weak(other, own_)) {
    }
    alone_ = other != own_;
  }
  ~OnlyLaunch() {
    if (alone_) process_.store(0);
  }
  OnlyLaunch(const OnlyLaunch&) = delete;
  OnlyLaunch& operator=(const OnlyLaunch&) = delete;
  [[nodiscard]] bool alone() const { return alone_; }

 private:
  static inline std::atomic<int> process_{
      0};  // that launches; seq_cst, it guards a handful of calls
  const int own_ = platform::process_id();
  bool alone_ = false;
};

Result<LaunchReport> launch_ranks(const LaunchSpec& spec) {
  if (Status s = check(spec); !s.ok()) return s;
  const OnlyLaunch only;
  if (!only.alone()) {
    return Status(StatusCode::kUnsupported,
                  "another thread of this process is in launch(); call it again when that has "
                  "returned");
  }
  auto made = symm::make_rendezvous(spec.size);
  if (!made.ok()) return made.status();
  const Descriptor rendezvous(*made);

  auto cpus = places(spec.bind, spec.size);
  if (!spec.devices.empty()) {
    const auto groups = device_groups();
    for (std::size_t r = 0; r < cpus.size(); ++r) {
      cpus[r] = groups[static_cast<std::size_t>(spec.devices[r])];
    }
  }
  std::vector<platform::ProcessSpec> processes;
  for (int r = 0; r < spec.size; ++r) {
    platform::ProcessSpec process{.command = spec.command,
                                  .environment = spec.environment,
                                  .cpus = cpus[static_cast<std::size_t>(r)]};
    process.environment.push_back(fmt::format("TANDEM_RANK={}", r));
    process.environment.push_back(fmt::format("TANDEM_SIZE={}", spec.size));
    process.environment.push_back(fmt::format("TANDEM_FD={}", platform::kInheritedDescriptor));
    processes.push_back(std::move(process));
  }
  platform::SignalInbox inbox;
  if (Status s = inbox.open(); !s.ok()) return s;
  platform::ProcessGroup group;
  if (Status s = group.start(processes, rendezvous.fd); !s.ok()) return s;
  return supervise(group, inbox, rendezvous.fd, spec.size);
}

}  // namespace

Devices devices() {
  const auto nodes = allowed_part(platform::topology().nodes);
  const auto cores = allowed_part(platform::topology().cores);
  if (nodes.size() <= 1) return {.count = static_cast<int>(cores.size())};
  std::size_t fewest = cores.size();
  for (const std::vector<int>& node : nodes) {
    const auto inside = std::count_if(cores.begin(), cores.end(), [&](const auto& core) {
      return std::find(node.begin(), node.end(), core.front()) != node.end();
    });
    fewest = std::min(fewest, static_cast<std::size_t>(inside));
  }
  return {.numa = true,
          .count = static_cast<int>(nodes.size()),
          .cores_each = std::max(1, static_cast<int>(fewest))};
}

Status check_devices(const std::vector<int>& list) {
  return base::guarded([&]() -> Status {
    const auto refuse = [](std::string message) {
      return Status(StatusCode::kInvalidArgument, std::move(message));
    };
    const Devices there = devices();
    const char* kind = there.numa ? "NUMA nodes" : "cores";
    if (list.empty()) return refuse("no device is named; name one for each rank, as in 0,1");
    if (static_cast<int>(list.size()) > std::min(there.count, kMaxRanks)) {
      return refuse(fmt::format("{} devices are named, but {} {} can be used here: name fewer",
                                list.size(), std::min(there.count, kMaxRanks), kind));
    }
    for (std::size_t r = 0; r < list.size(); ++r) {
      if (list[r] < 0 || list[r] >= there.count) {
        return refuse(
            fmt::format("device {} does not exist: the {} that can be used here are 0..{}", list[r],
                        kind, there.count - 1));
      }
      if (std::find(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(r), list[r]) !=
          list.begin() + static_cast<std::ptrdiff_t>(r)) {
        return refuse(fmt::format("device {} is named twice: every rank needs its own", list[r]));
      }
    }
    return {};
  });
}

Result<LaunchReport> launch(const LaunchSpec& spec) {
  return base::guarded([&] { return launch_ranks(spec); });
}

}  // namespace tandem
