// SPDX-License-Identifier: Apache-2.0
//
// The tables of rates: at every shape all peers are prepared, checked, and then take turns with
// each other and the ceilings. Also used by floors: the same with fewer rows and two floors. Start
// reading at measure_shape().
#include "bench/peers/shapes_section.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "bench/peers/verify.h"

namespace tandem::bench {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A peer that is ready for its turns at this shape.
struct Contender {
  Peer* peer = nullptr;
  int id = -1;
  std::string check;
};

/// Time over the larger of two floors: reading the weights, and doing the operations.
double time_over_floor(const Turns& turns, const Contender& contender, int ceiling, int read,
                       double operations) {
  std::vector<double> ratios;
  const auto bytes = static_cast<double>(contender.peer->weight_bytes());
  for (std::size_t round = 0; round < turns.rates(contender.id).size(); ++round) {
    const double time = operations / turns.rates(contender.id)[round];
    const double reading = bytes / turns.rates(read)[round];
    const double computing = ceiling < 0 ? 0 : operations / turns.rates(ceiling)[round];
    ratios.push_back(time / std::max(reading, computing));
  }
  return median(std::move(ratios));
}

int find(const std::vector<Contender>& contenders, const std::string& name, DType type) {
  for (const Contender& c : contenders) {
    if (c.peer->name() == name && c.peer->type() == type) return c.id;
  }
  return -1;
}

}  // namespace

void measure_shape(Session& session, const PeerList& list, const Problem& problem,
                   const ShapeSettings& settings) {
  const Shape& shape = problem.shape();
  const int threads = session.options().threads;
  const double start = now();
  Turns turns(session.turn_settings(threads, 0));
  const CeilingIds ceilings = session.add_ceilings(turns, threads);
  const int read = settings.bandwidth == nullptr
                       ? -1
                       : turns.add([&] { settings.bandwidth->read(threads); },
                                   settings.bandwidth->read(threads));

  Verifier verifier(problem);
  std::vector<Contender> contenders;
  Status failure;
  for (const auto& peer : list.peers) {
    const std::string who =
        fmt::format("{} {} at {}", peer->name(), tandem::name(peer->type()), shape.text());
    if (Status ready = peer->prepare(problem.operands(peer->type()), threads); !ready.ok()) {
      if (peer->exact()) {
        session.fail(fmt::format("{}: {}", who, ready.message()));
      } else {
        session.report().line(fmt::format("{}: {}", who, ready.message()));
      }
      continue;
    }
    const Check check = verifier.check(*peer);
    if (!check.passed) {
      session.fail(fmt::format("{}: {}", who, check.text));
      continue;
    }
    Peer* p = peer.get();
    const int id = turns.add(
        [p, &failure] {
          if (Status ran = p->run(); !ran.ok()) failure = ran;
        },
        shape.operations(), check.seconds);
    contenders.push_back({.peer = p, .id = id, .check = check.text});
  }
  turns.limit(settings.budget_s > 0 ? std::max(0.001, settings.budget_s - (now() - start)) : 0);
  turns.run();
  if (!failure.ok()) session.fail(failure.message());

  for (const Contender& c : contenders) {
    const DType type = c.peer->type();
    const int ceiling = ceilings.of(type);
    const int same = find(contenders, "tandem", type);
    const int f16 = find(contenders, "tandem", DType::f16);
    const auto ratio = [&](int to) {
      return to < 0 ? std::nullopt : std::optional(turns.ratio(c.id, to));
    };
    const double b_bytes =
        static_cast<double>(shape.k * shape.n) * static_cast<double>(size_of(type));
    Figure figure{.section = settings.section,
                  .peer = c.peer->name(),
                  .type = type,
                  .shape = shape,
                  .threads = threads,
                  .rate = turns.rate(c.id) * 1e-9,
                  .to_ceiling = ratio(ceiling).value_or(0),
                  .to_tandem = ratio(same),
                  .to_tandem_f16 = type == DType::f32 ? ratio(f16) : std::nullopt,
                  .of_floor = std::nullopt,
                  .weight_ratio = static_cast<double>(c.peer->weight_bytes()) / b_bytes,
                  .check = c.check,
                  .rounds = turns.rounds()};
    if (read >= 0) figure.of_floor = time_over_floor(turns, c, ceiling, read, shape.operations());
    session.report().figure(figure);
  }
}

void measure_shapes(Session& session) {
  const Options& options = session.options();
  session.report().heading(
      fmt::format("Shapes, {} thread{}", options.threads, options.threads == 1 ? "" : "s"));
  session.report().figure_header("to tandem f16");
  const PeerList list = session.peers();
  Problem problem;
  const double end = now() + options.time_budget;
  for (std::size_t i = 0; i < options.shapes.size(); ++i) {
    // What is left is shared out evenly among the shapes that are left.
    const double start = now();
    const double share = (end - start) / static_cast<double>(options.shapes.size() - i);
    if (Status made = problem.make(options.shapes[i], options.types); !made.ok()) {
      session.fail(fmt::format("{}: {}", options.shapes[i].text(), made.message()));
      continue;
    }
    const double left = std::max(0.001, share - (now() - start));
    measure_shape(session, list, problem,
                  {.section = "shapes",
                   .bandwidth = nullptr,
                   .budget_s = options.time_budget > 0 ? left : 0});
  }
  session.report().summary();
}

}  // namespace tandem::bench
