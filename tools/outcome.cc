// SPDX-License-Identifier: Apache-2.0
//
// Outcomes: from status to exit code, from many ranks to one, and onto the terminal. merge() holds
// the only policy.
#include "outcome.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "report_json.h"
#include "standard_streams.h"

namespace tandem::tool {
namespace {

struct Group {
  std::string message;
  std::vector<std::size_t> ranks;
};

std::string describe(const Group& group, std::size_t size) {
  if (group.ranks.size() == size) return group.message;
  if (group.ranks.size() == 1) return fmt::format("rank {}: {}", group.ranks[0], group.message);
  return fmt::format("ranks {}: {}", fmt::join(group.ranks, ", "), group.message);
}

}  // namespace

int exit_code_of(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return kExitOk;
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
      return kExitBadUsage;
    default:
      return kExitFailure;
  }
}

Outcome failed(const Status& status) {
  return {.exit_code = exit_code_of(status.code()),
          .kind = std::string(name(status.code())),
          .message = status.message()};
}

Outcome out_of_memory() { return failed({StatusCode::kOutOfMemory, std::string(kOutOfMemory)}); }

Outcome not_verified(std::string message, std::string output) {
  return {.exit_code = kExitNotVerified,
          .output = std::move(output),
          .kind = "not verified",
          .message = std::move(message)};
}

Status in_context(const std::string& prefix, const Status& status) {
  return {status.code(), prefix + ": " + status.message()};
}

Outcome merge(const std::vector<std::optional<Outcome>>& ranks) {
  const std::string lost(name(StatusCode::kPeerLost));
  const auto failing = [](const std::optional<Outcome>& rank) {
    return rank && rank->exit_code != kExitOk;
  };
  const auto is_cause = [&](const std::optional<Outcome>& rank) {
    return failing(rank) && !rank->message.empty() && rank->kind != lost;
  };
  const bool explained = std::any_of(ranks.begin(), ranks.end(), is_cause);

  Outcome merged;
  std::vector<Group> groups;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (!failing(ranks[r]) || (explained && !is_cause(ranks[r]))) continue;
    const Outcome& rank = *ranks[r];
    if (merged.exit_code == kExitOk) {
      merged.exit_code = rank.exit_code;
      merged.kind = rank.kind;
    }
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return group.message == rank.message;
    });
    if (same != groups.end()) {
      same->ranks.push_back(r);
    } else if (!rank.message.empty()) {
      groups.push_back({rank.message, {r}});
    }
  }
  for (const Group& group : groups) {
    if (!merged.message.empty()) merged.message += '\n';
    merged.message += describe(group, ranks.size());
  }
  const bool complete = merged.exit_code == kExitOk || merged.exit_code == kExitNotVerified;
  if (complete && !ranks.empty() && ranks[0]) merged.output = ranks[0]->output;
  return merged;
}

int print(const Outcome& outcome, bool json) {
  if (outcome.delivered) return outcome.exit_code;
  std::string output = outcome.output;
  if (json && output.empty() && outcome.exit_code != kExitOk) {
    output = error_json(outcome);
  }
  std::string_view rest = outcome.message;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    say(stderr, fmt::format("tandem: {}\n", line));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  const bool broken = std::ferror(stdout) != 0;  // by what was printed on the way
  if (!say(stdout, output) || broken) {
    const std::string why = broken ? "" : fmt::format(": {}", std::strerror(errno));
    say(stderr, fmt::format("tandem: cannot write to standard output{}\n", why));
    return kExitFailure;
  }
  return outcome.exit_code;
}

}  // namespace tandem::tool
