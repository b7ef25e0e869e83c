// SPDX-License-Identifier: Apache-2.0
//
// Door. Start reading at tend().
#include "mpi/door.h"

#include <utility>

namespace tandem::mpi {
namespace {

/// Strangers that may stand in the doorway; then the first of them goes. A rank says the word as
/// soon as it is connected, so it is never among those for long.
constexpr std::size_t kMostStrangers = 64;
/// Connections accepted in one go: more than any queue holds, few enough to come back soon.
constexpr int kMostAtOnce = 1024;

struct Knock {
  Word word{};
  std::uint64_t rank = 0;
};

}  // namespace

Result<Door> Door::open(const platform::SocketName& name, const Word& word) {
  auto listener = platform::LocalListener::create(name);
  if (!listener.ok()) return listener.status();
  return Door(std::move(listener).value(), word);
}

Status Door::announce(platform::LocalSocket& connection, const Word& word, int rank) {
  const Knock knock{.word = word, .rank = static_cast<std::uint64_t>(rank)};
  return connection.send(std::as_bytes(std::span(&knock, 1)));
}

Status Door::tend() {
  for (int i = 0; i < kMostAtOnce; ++i) {
    auto came = listener_.accept();
    if (!came.ok()) return came.status();
    if (!came->has_value()) break;
    if (!hear(**came)) continue;
    strangers_.push_back(std::move(**came));
    if (strangers_.size() <= kMostStrangers) continue;
    (void)hear(strangers_.front());
    strangers_.pop_front();
  }
  for (std::size_t left = strangers_.size(); left > 0; --left) {
    platform::LocalSocket stranger = std::move(strangers_.front());
    strangers_.pop_front();
    if (hear(stranger)) strangers_.push_back(std::move(stranger));
  }
  return {};
}

bool Door::hear(platform::LocalSocket& connection) {
  Knock knock;
  const auto said = connection.receive(std::as_writable_bytes(std::span(&knock, 1)));
  if (!said.ok()) return false;
  if (!said.value()) return true;
  if (*said.value() == sizeof knock && knock.word == word_ && knock.rank < 64) {
    admitted_.insert_or_assign(static_cast<int>(knock.rank), std::move(connection));
  }
  return false;
}

std::optional<int> Door::hand_over(int descriptor) {
  for (auto& [rank, connection] : admitted_) {
    if (!connection.send_descriptor(descriptor).ok()) return rank;
  }
  return std::nullopt;
}

}  // namespace tandem::mpi
