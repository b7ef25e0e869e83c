// SPDX-License-Identifier: Apache-2.0
//
// Settling offers. Their bytes come from other processes: whatever they hold, the result is an
// answer.
#include "symm/offer.h"

#include <fmt/format.h>

namespace tandem::symm {

std::string_view describe(Collective what) {
  switch (what) {
    case Collective::join:
      return "joins the world";
    case Collective::barrier:
      return "waits in barrier()";
    case Collective::all_gather:
      return "calls all_gather()";
    case Collective::create_operator:
      return "creates an operator";
    case Collective::create_window:
      return "makes the window of an operator";
    case Collective::restart:
      return "calls an operator again whose last call was refused";
  }
  return "does something that this version of Tandem does not know";
}

Offer Offer::of(Collective what, const Result<Terms>& own) {
  Offer offer;
  offer.what = what;
  if (own.ok()) {
    offer.terms = *own;
  } else {
    offer.refusal = FailureText::of(own.status());
  }
  return offer;
}

Result<std::vector<Terms>> settle(std::span<const Offer> offers, int own) {
  const auto refuses = [](const Offer& offer) { return offer.refusal.code != 0; };
  const Offer& mine = offers[static_cast<std::size_t>(own)];
  if (refuses(mine)) return mine.refusal.status();
  for (std::size_t r = 0; r < offers.size(); ++r) {
    if (!refuses(offers[r])) continue;
    const Status reason = offers[r].refusal.status();
    return Status(reason.code(), fmt::format("rank {} refuses: {}", r, reason.message()));
  }
  for (std::size_t r = 0; r < offers.size(); ++r) {
    if (offers[r].what == offers[0].what) continue;
    return Status(StatusCode::kMismatch,
                  fmt::format("rank 0 {} while rank {} {}; every rank must make the same sequence "
                              "of collective calls",
                              describe(offers[0].what), r, describe(offers[r].what)));
  }
  std::vector<Terms> terms;
  for (const Offer& offer : offers) terms.push_back(offer.terms);
  return terms;
}

}  // namespace tandem::symm
