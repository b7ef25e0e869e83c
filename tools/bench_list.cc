// SPDX-License-Identifier: Apache-2.0
//
// `tandem bench OP --shapes FILE`: one set of ranks measures every shape of a list that the table
// of results does not have yet. Memory is bounded by the largest shape, since each is given back
// before the next. The first rank decides what comes next and keeps the table. Start reading at
// measure_list().
#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "bench_table.h"
#include "commands.h"
#include "distribution.h"
#include "job_options.h"
#include "progress.h"
#include "ranks.h"
#include "report.h"
#include "report_json.h"

namespace tandem::tool {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Job job_of(const Job& base, const Shape& shape) {
  Job job = base;
  job.m = shape.m;
  job.k = shape.k;
  job.n = shape.n;
  job.rows = split_rows(shape.m, job.ranks);
  return job;
}

/// What a shape takes, in seconds, from the rough rates of its operator: one round of the four
/// modes, of which three multiply; and what comes before and after the rounds.
struct Cost {
  explicit Cost(const Job& job) {
    constexpr double kRoundOverhead = 0.003, kFillRate = 4e8, kReferenceSeconds = 1;
    const auto elements = static_cast<double>(job.max_rows()) * static_cast<double>(job.k) +
                          static_cast<double>(job.k) * static_cast<double>(job.n);
    round = 3 * job.operations() / (job.op->multiply_rate * job.compute_threads) + kRoundOverhead;
    around = elements / kFillRate + std::min(job.reference_seconds(), kReferenceSeconds);
    all = round * (job.warmup + job.iterations) + around;
  }
  double round, around, all;
};

/// The first rank's view of the list: what is left, and how much of the time budget each gets.
class Plan {
 public:
  Plan(const Job& job, const std::vector<Shape>& shapes, const BenchTable& table) : job_(job) {
    for (const Shape& shape : shapes) {
      const bool twice =
          std::any_of(left_.begin(), left_.end(), [&](const Entry& e) { return e.shape == shape; });
      if (table.has(shape) || twice) continue;
      left_.push_back({shape, Cost(job_of(job, shape))});
      total_ += left_.back().cost.all;
    }
  }

  struct Next {
    Shape shape;
    std::chrono::milliseconds budget{0};
  };
  /// The next shape that memory and the rest of the budget allow; the others are noted.
  std::optional<Next> next() {
    while (at_ < left_.size()) {
      const Entry& entry = left_[at_++];
      const Job job = job_of(job_, entry.shape);
      if (Status s = check_memory(job, bench_bytes(job), job.processes()); !s.ok()) {
        skipped_.push_back(fmt::format("skipped {}: {}", entry.shape.text(), s.message()));
        passed_ += entry.cost.all;
        continue;
      }
      if (job_.time_budget.count() == 0) return Next{entry.shape};
      const double rest = budget() - seconds_since(start_);
      if (rest < pace_ * (entry.cost.round + entry.cost.around) && measured_ > 0) {
        postponed_++;
        passed_ += entry.cost.all;
        continue;
      }
      return Next{entry.shape, share(rest)};
    }
    return std::nullopt;
  }
  void done() {
    const Cost& cost = left_[at_ - 1].cost;
    passed_ += cost.all;
    ++measured_;
  }
  /// How much slower this machine is than the rough rates.
  void learn(double round_seconds) {
    const double ratio = round_seconds / left_[at_ - 1].cost.round;
    pace_ = std::clamp(0.5 * (pace_ + ratio), 0.2, 20.0);
  }

  [[nodiscard]] double fraction(double of_shape) const {
    const double now = at_ > 0 ? left_[at_ - 1].cost.all * of_shape : 0;
    const double by_cost = total_ > 0 ? (passed_ + now) / total_ : 1;
    if (job_.time_budget.count() == 0) return by_cost;
    return std::max(by_cost, seconds_since(start_) / budget());
  }
  [[nodiscard]] std::size_t shapes() const { return left_.size(); }
  [[nodiscard]] int postponed() const { return postponed_; }
  [[nodiscard]] const std::vector<std::string>& skipped() const { return skipped_; }

 private:
  struct Entry {
    Shape shape;
    Cost cost;
  };
  [[nodiscard]] double budget() const {
    return std::chrono::duration<double>(job_.time_budget).count();
  }
  /// Of the rest of the budget, for the rounds of the entry before at_: in proportion to what a
  /// round costs, so that all get as many; but short shapes, whose rounds cost nothing, get theirs.
  [[nodiscard]] std::chrono::milliseconds share(double rest) const {
    constexpr double kAlways = 0.3;
    const Cost& own = left_[at_ - 1].cost;
    double rounds = 0, around = 0;
    for (std::size_t i = at_ - 1; i < left_.size(); ++i) {
      rounds += left_[i].cost.round;
      around += left_[i].cost.around;
    }
    const double all_rounds = pace_ * own.round * (job_.warmup + job_.iterations);
    const double fair = std::max(0.0, rest - pace_ * around) * own.round / rounds;
    const double seconds = std::max(fair, std::min(all_rounds, kAlways));
    return std::chrono::milliseconds(std::max<std::int64_t>(1, std::llround(seconds * 1000)));
  }

  const Job& job_;
  std::vector<Entry> left_;
  std::size_t at_ = 0;
  double total_ = 0, passed_ = 0, pace_ = 1;
  int measured_ = 0, postponed_ = 0;
  std::vector<std::string> skipped_;
  const Clock::time_point start_ = Clock::now();
};

/// Collective: the first rank's value on all ranks.
Result<double> from_first(const World& world, double value) {
  auto all = world.all_gather(value);
  return all.ok() ? Result<double>(all->front()) : Result<double>(all.status());
}

/// Collective: what the first rank says comes next.
Result<std::optional<Plan::Next>> announce(const World& world,
                                           const std::optional<Plan::Next>& own) {
  double values[] = {own ? 1.0 : 0.0, own ? static_cast<double>(own->shape.m) : 0,
                     own ? static_cast<double>(own->shape.k) : 0,
                     own ? static_cast<double>(own->shape.n) : 0,
                     own ? static_cast<double>(own->budget.count()) : 0};
  for (double& value : values) {
    auto first = from_first(world, value);
    if (!first.ok()) return first.status();
    value = *first;
  }
  if (values[0] == 0) return std::optional<Plan::Next>();
  return std::optional<Plan::Next>(
      {{static_cast<std::int64_t>(values[1]), static_cast<std::int64_t>(values[2]),
        static_cast<std::int64_t>(values[3])},
       std::chrono::milliseconds(static_cast<std::int64_t>(values[4]))});
}

struct Files {
  Path csv, json;
};

Outcome finish(const Job& job, const BenchTable& table, const Plan& plan, const Files& files) {
  const std::vector<Spread> all = spreads(table.rows());
  const std::string json = bench_list_json(job, table, all, plan.skipped());
  auto file = MatrixWriter::create(files.json, "--out");
  if (!file.ok()) return failed(file.status());
  if (Status s = file->write(json); !s.ok()) return failed(s);
  if (Status s = file->commit(); !s.ok()) return failed(s);

  const auto count = [&table](const char* status) {
    return std::count_if(table.rows().begin(), table.rows().end(),
                         [status](const BenchRow& row) { return row.text("status") == status; });
  };
  std::string text = fmt::format("{} ({}): {}, {} -> {}\n", job.op->title, name(job.transport.kind),
                                 counted(job.ranks, "rank"), name(job.a_type), name(job.c_type));
  text += fmt::format("{} in {}: {} right, {} wrong, {} failed\n",
                      counted(static_cast<std::int64_t>(table.rows().size()), "shape"),
                      files.csv.string(), count("ok"), count("wrong"), count("failed"));
  for (const std::string& line : plan.skipped()) text += line + "\n";
  if (plan.postponed() > 0) {
    text += fmt::format("{} left when the time budget was spent: the same command goes on\n",
                        counted(plan.postponed(), "shape"));
  }
  text += spreads_text(all);
  std::string output = job.json ? json : job.quiet ? "" : text;
  if (const auto wrong = count("wrong"); wrong > 0) {
    return not_verified(fmt::format("verification failed for {}, see {}", counted(wrong, "shape"),
                                    files.csv.string()),
                        std::move(output));
  }
  return {.output = std::move(output)};
}

Outcome measure_list(const World& world, const Job& base, const std::vector<Shape>& shapes,
                     const Files& files) {
  const bool first = world.rank() == 0;
  // Only the first rank's table and plan are used; the others' are made for their checks.
  auto table = BenchTable::open(files.csv, base);
  if (auto bad = agree(world, table.status())) return *bad;
  Plan plan(base, shapes, *table);
  Progress bar(!base.quiet && first, fmt::format("bench {} shapes", plan.shapes()));
  while (true) {
    auto next = announce(world, first ? plan.next() : std::nullopt);
    if (!next.ok()) return failed(next.status());
    if (!*next) break;
    Job job = job_of(base, (*next)->shape);
    job.time_budget = (*next)->budget;
    bar.update(plan.fraction(0));
    auto measured =
        base.op->measure(world, job, [&](double done) { bar.update(plan.fraction(done)); });
    if (!measured.ok()) {
      Status failure = in_context((*next)->shape.text(), measured.status());
      // The ranks are no longer in step: this run ends, the next one goes on behind this shape.
      if (first) {
        if (Status s = table->add_failed(job, measured.status().message()); !s.ok()) failure = s;
      }
      return failed(failure);
    }
    auto peaks = world.all_gather(measured->peak_rss_mib);
    if (!peaks.ok()) return failed(peaks.status());
    Status added;
    if (first) {
      added = table->add(job, *measured, *std::max_element(peaks->begin(), peaks->end()));
      plan.learn((2 * measured->compute_only_ms.median + measured->comm_only_ms.median * 2 +
                  measured->pipelined_ms.median) /
                 1000);
      plan.done();
    }
    if (auto bad = agree(world, added)) return *bad;
  }
  return first ? finish(base, *table, plan, files) : Outcome();
}

}  // namespace

Outcome bench_list(const Operator& op, const JobOptions& options, const ListOptions& list,
                   const std::vector<std::string>& arguments) {
  const auto refuse = [](std::string message) {
    return failed({StatusCode::kInvalidArgument, std::move(message)});
  };
  if (options.m || options.k || options.n || options.rows) {
    return refuse("--shapes gives the sizes: leave --m, --k, --n and --rows out");
  }
  auto job = resolve(Verb::bench, op, options);
  if (!job.ok()) return failed(job.status());
  auto shapes = read_shapes(list.shapes);
  if (!shapes.ok()) return failed(shapes.status());
  if (list.m_per_rank) {
    for (Shape& shape : *shapes) shape.m *= job->ranks;
  }
  const std::string stem = list.out.empty() ? fmt::format("bench_{}", op.name) : list.out;
  const Files files{stem + ".csv", stem + ".json"};
  // Told of before any rank starts.
  if (auto table = BenchTable::open(files.csv, *job); !table.ok()) return failed(table.status());
  return run_ranks(*job, arguments, 0,
                   [&](const World& world) { return measure_list(world, *job, *shapes, files); });
}

}  // namespace tandem::tool
