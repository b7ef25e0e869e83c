// SPDX-License-Identifier: Apache-2.0
//
// tandem::World over symm::World: where a world comes from (threads, the environment) and the
// members that programs call.
#include "tandem/world.h"

#include <bit>
#include <limits>
#include <mutex>

#include <fmt/format.h>

#include "base/guarded.h"
#include "op/other_launcher.h"
#include "platform/environment.h"
#include "symm/world.h"

namespace tandem {
namespace {

using platform::env_integer;
using platform::env_text;

Result<std::vector<World>> wrap(Result<std::vector<std::shared_ptr<symm::World>>> made) {
  if (!made.ok()) return made.status();
  std::vector<World> worlds;
  for (std::shared_ptr<symm::World>& world : *made) worlds.emplace_back(std::move(world));
  return worlds;
}

Result<World> join(int rank, int size, int fd, std::chrono::milliseconds timeout) {
  // A process is one rank: whoever joins again while its world lives gets the same one.
  static std::mutex mutex;
  static std::weak_ptr<symm::World> joined;
  const std::lock_guard lock(mutex);
  if (std::shared_ptr<symm::World> world = joined.lock()) {
    if (Status s = world->check_process(); !s.ok()) return s;
    return World(std::move(world));
  }
  auto world = symm::join_world(rank, size, fd, timeout);
  if (world.status().code() == StatusCode::kIo) {
    return Status(StatusCode::kIo,
                  fmt::format("{} (TANDEM_FD={}); start the ranks with `tandem launch`, and with "
                              "nothing between it and them that closes its descriptor",
                              world.status().message(), fd));
  }
  if (!world.ok()) return world.status();
  joined = *world;
  return World(std::move(world).value());
}

Result<World> join_by_variables(const WorldOptions& options) {
  constexpr const char* kNames[] = {"TANDEM_RANK", "TANDEM_SIZE", "TANDEM_FD"};
  int set = 0;
  for (const char* name : kNames) set += env_text(name).has_value() ? 1 : 0;
  if (set == 0) {
    if (Status s = check_started_alone(); !s.ok()) return s;
    auto alone = World::threads(1, options);
    if (!alone.ok()) return alone.status();
    return std::move(alone->front());
  }
  for (const char* name : kNames) {
    if (env_text(name)) continue;
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("environment variable {} is missing while {} of TANDEM_RANK, "
                              "TANDEM_SIZE and TANDEM_FD are set; start the ranks with `tandem "
                              "launch`, or unset all three",
                              name, set));
  }
  const auto size = env_integer("TANDEM_SIZE", 1, kMaxRanks);
  if (!size.ok()) return size.status();
  const auto rank = env_integer("TANDEM_RANK", 0, **size - 1);
  if (!rank.ok()) return rank.status();
  // 0, 1 and 2 are the program's input and output: `tandem launch` never gives them.
  const auto fd = env_integer("TANDEM_FD", 3, std::numeric_limits<int>::max());
  if (!fd.ok()) return fd.status();
  return join(static_cast<int>(**rank), static_cast<int>(**size), static_cast<int>(**fd),
              options.timeout);
}

}  // namespace

Result<std::vector<World>> World::threads(int size, WorldOptions options) {
  return base::guarded([&] { return wrap(symm::make_thread_worlds(size, options.timeout)); });
}

Result<World> World::from_environment() {
  const auto timeout = base::guarded([] { return platform::env_timeout(WorldOptions().timeout); });
  if (!timeout.ok()) return timeout.status();
  return from_environment({.timeout = *timeout});
}

Result<World> World::from_environment(WorldOptions options) {
  return base::guarded([&] { return join_by_variables(options); });
}

int World::rank() const { return impl_->rank(); }
int World::size() const { return impl_->size(); }
std::chrono::milliseconds World::timeout() const { return impl_->timeout(); }

Status World::barrier() const { return impl_->barrier(); }

Status World::refuse(const Status& reason) const {
  if (!reason.ok()) return impl_->refuse(reason);
  return {StatusCode::kInvalidArgument,
          "a refusal needs a reason; pass the status of what went wrong"};
}

Result<std::vector<double>> World::all_gather(double value) const {
  return base::guarded([&]() -> Result<std::vector<double>> {
    const symm::Terms own{std::bit_cast<std::int64_t>(value)};
    auto all = impl_->exchange(symm::Collective::all_gather, own);
    if (!all.ok()) return all.status();
    std::vector<double> values;
    for (const symm::Terms& terms : *all) values.push_back(std::bit_cast<double>(terms[0]));
    return values;
  });
}

}  // namespace tandem
