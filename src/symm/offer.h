// SPDX-License-Identifier: Apache-2.0
//
// Offer: what a rank brings to a collective of its world: which collective it believes it takes
// part in, and its terms or the reason why it refuses. settle() makes of all offers what every rank
// returns. A refusal is an answer, not a failure: every rank gets an error at once, and the world
// goes on. Carried by World::exchange().
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "symm/note.h"
#include "tandem/status.h"

namespace tandem::symm {

enum class Collective : std::uint32_t {
  join,
  barrier,
  all_gather,
  create_operator,
  create_window,
  restart,  ///< of an operator, after a call that was refused
};
/// What a rank does in it: "creates an operator".
[[nodiscard]] std::string_view describe(Collective what);

/// What a collective carries from each rank.
using Terms = std::array<std::int64_t, 16>;

/// Plain bytes, in shared memory and on the wire.
struct Offer {
  Collective what = Collective::barrier;
  std::uint32_t spare = 0;  // no padding that would travel uninitialised
  Terms terms{};
  FailureText refusal;  ///< code kOk: none

  [[nodiscard]] static Offer of(Collective what, const Result<Terms>& own);
};
static_assert(sizeof(Offer) <= kMaxText);

/// Every rank's terms; or, the same on all ranks but for the words: this rank's own refusal, that
/// of the lowest rank that refused, or kMismatch where ranks met in different collectives.
[[nodiscard]] Result<std::vector<Terms>> settle(std::span<const Offer> offers, int own);

}  // namespace tandem::symm
