// SPDX-License-Identifier: Apache-2.0
//
// One thread against two (or --threads): every peer twice, taking turns with itself and with the
// ceiling loops on as many threads. The ceilings' own scaling says whether the cores were free.
#include <algorithm>

#include <fmt/format.h>

#include "bench/peers/session.h"

namespace tandem::bench {
namespace {

void measure_scaling_at(Session& session, const Problem& problem, int threads) {
  Turns turns(session.turn_settings(threads, 0));
  const CeilingIds one_ceiling = session.add_ceilings(turns, 1);
  const CeilingIds all_ceiling = session.add_ceilings(turns, threads);
  const PeerList one = session.peers(), all = session.peers();
  struct Row {
    Peer* peer;
    int one, all;
  };
  std::vector<Row> rows;
  Status failure;
  const auto add = [&](Peer* peer, int count) {
    if (!peer->prepare(problem.operands(peer->type()), count).ok()) return -1;
    return turns.add(
        [peer, &failure] {
          if (Status ran = peer->run(); !ran.ok()) failure = ran;
        },
        problem.shape().operations());
  };
  for (std::size_t i = 0; i < one.peers.size(); ++i) {
    const Row row{.peer = one.peers[i].get(),
                  .one = add(one.peers[i].get(), 1),
                  .all = add(all.peers[i].get(), threads)};
    if (row.one >= 0 && row.all >= 0) rows.push_back(row);
  }
  turns.run();
  if (!failure.ok()) session.fail(failure.message());

  for (const Row& row : rows) {
    const DType type = row.peer->type();
    const double scaling = turns.ratio(row.all, row.one);
    const int base = one_ceiling.of(type);
    const double ceiling = base < 0 ? 0 : turns.ratio(all_ceiling.of(type), base);
    session.report().line(fmt::format("{:<18} {:<9} {:<5} {:>9.2f} {:>9.2f} {:>8.3f} {:>15.3f}",
                                      problem.shape().text(), row.peer->name(), tandem::name(type),
                                      turns.rate(row.one) * 1e-9, turns.rate(row.all) * 1e-9,
                                      scaling, ceiling));
    session.report().json()["scaling"].push_back({{"peer", row.peer->name()},
                                                  {"type", tandem::name(type)},
                                                  {"m", problem.shape().m},
                                                  {"k", problem.shape().k},
                                                  {"n", problem.shape().n},
                                                  {"threads", threads},
                                                  {"gflops_one_thread", turns.rate(row.one) * 1e-9},
                                                  {"gflops", turns.rate(row.all) * 1e-9},
                                                  {"scaling", scaling},
                                                  {"ceiling_scaling", ceiling}});
  }
}

}  // namespace

void measure_scaling(Session& session) {
  const int threads = std::max(2, session.options().threads);
  session.report().heading(fmt::format("One thread against {}", threads));
  session.report().line(fmt::format("{:<18} {:<9} {:<5} {:>9} {:>9} {:>8} {:>15}", "M x K x N",
                                    "peer", "type", "1 thread", fmt::format("{} threads", threads),
                                    "scaling", "ceiling scaling"));
  Problem problem;
  for (const Shape& shape : session.options().shapes) {
    if (Status made = problem.make(shape, session.options().types); !made.ok()) {
      return session.fail(made.message());
    }
    measure_scaling_at(session, problem, threads);
  }
}

}  // namespace tandem::bench
