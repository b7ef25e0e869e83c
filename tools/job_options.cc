// SPDX-License-Identifier: Apache-2.0
//
// The order in which what is left out is filled in: the launched world (ranks only), the manifest
// of the data folder, the default. Start reading at resolve().
#include "job_options.h"

#include <algorithm>
#include <numeric>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "manifest.h"
#include "mpi_ranks.h"
#include "option_text.h"
#include "tandem/launch.h"
#include "tandem/system.h"
#include "tandem/world.h"

namespace tandem::tool {
namespace {

Status refuse(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }

/// A value that may be given and may be recorded: both must agree.
template <class T>
Status settle(const char* option, const std::optional<T>& given, const Manifest* manifest,
              T Manifest::*member, T standard, T& value) {
  value = given.value_or(manifest != nullptr ? manifest->*member : standard);
  if (manifest == nullptr || value == manifest->*member) return {};
  return refuse(
      fmt::format("{} is {}, but the data in {} was made with {}: leave {} out, or make "
                  "the data again with `tandem gen`",
                  option, value, manifest->path.string(), manifest->*member, option));
}

/// mpirun has settled the number of ranks.
Status settle_mpi_ranks(const JobOptions& o, const Manifest* manifest, Job& job,
                        std::vector<std::int64_t>& rows) {
  if (o.ranks_as == "thread") {
    return refuse(
        "--ranks-as thread is given with --transport mpi, whose ranks are processes that "
        "mpirun starts: leave one of them out");
  }
  const auto place = mpi_place();
  if (!place.ok()) return place.status();
  if (o.ranks && *o.ranks != place->size) {
    return refuse(fmt::format(
        "--ranks is {}, but MPI has started {}: start with `mpirun -n {} "
        "tandem ...`, or leave --ranks out",
        *o.ranks,
        place->size == 1 ? std::string("1 process") : fmt::format("{} processes", place->size),
        *o.ranks));
  }
  if (o.rows) {
    auto parsed = parse_row_list(*o.rows);
    if (!parsed.ok()) return parsed.status();
    rows = *parsed;
    if (static_cast<int>(rows.size()) != place->size) {
      return refuse(fmt::format("--rows has {} entries for {} ranks: give one for each rank",
                                rows.size(), place->size));
    }
  }
  return settle("--ranks", std::optional<int>(place->size), manifest, &Manifest::ranks, 1,
                job.ranks);
}

Status settle_ranks(const JobOptions& o, const Manifest* manifest, Job& job,
                    std::vector<std::int64_t>& rows) {
  if (o.transport == "mpi") return settle_mpi_ranks(o, manifest, job, rows);
  auto launched = launched_size();
  if (!launched.ok()) return launched.status();
  std::optional<int> ranks = o.ranks;
  if (*launched) {
    if (o.ranks_as == "thread") {
      return refuse(
          "--ranks-as thread makes ranks of its own, but this process is a rank of a "
          "launched world already (TANDEM_RANK is set): leave the option out");
    }
    if (ranks && *ranks != **launched) {
      return refuse(
          fmt::format("--ranks is {}, but this process is one of {} launched ranks "
                      "(TANDEM_SIZE): leave --ranks out, or launch {}",
                      *ranks, **launched, *ranks));
    }
    ranks = *launched;
  }
  if (o.rows) {
    auto parsed = parse_row_list(*o.rows);
    if (!parsed.ok()) return parsed.status();
    rows = *parsed;
    if (ranks && static_cast<int>(rows.size()) != *ranks) {
      return refuse(fmt::format("--rows has {} entries for {} ranks: give one for each rank",
                                rows.size(), *ranks));
    }
    ranks = static_cast<int>(rows.size());
  }
  if (o.devices && !ranks) {
    auto list = parse_device_list(*o.devices);
    if (!list.ok()) return list.status();
    ranks = static_cast<int>(list->size());
  }
  return settle("--ranks", ranks, manifest, &Manifest::ranks, 2, job.ranks);
}

Status settle_rows(const JobOptions& o, const Manifest* manifest, std::vector<std::int64_t> rows,
                   Job& job) {
  std::optional<std::int64_t> m = o.m;
  if (!rows.empty()) {
    const std::int64_t sum = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    if (m && *m != sum) {
      return refuse(
          fmt::format("--m is {}, but --rows adds up to {}: leave one of them out", *m, sum));
    }
    m = sum;
  }
  if (Status s = settle<std::int64_t>("--m", m, manifest, &Manifest::m, 2048, job.m); !s.ok()) {
    return s;
  }
  job.rows = !rows.empty()         ? std::move(rows)
             : manifest != nullptr ? manifest->rows
                                   : split_rows(job.m, job.ranks);
  if (manifest != nullptr && job.rows != manifest->rows) {
    return refuse(fmt::format(
        "--rows is {}, but the data in {} was made with {}: leave --rows "
        "out, or make the data again with `tandem gen`",
        fmt::join(job.rows, ","), manifest->path.string(), fmt::join(manifest->rows, ",")));
  }
  return {};
}

Status settle_dequant(const JobOptions& o, const Manifest* manifest, Job& job) {
  Status status = settle("--bias", o.bias, manifest, &Manifest::bias, true, job.bias);
  if (status.ok()) {
    status = settle("--row-scales", o.row_scales, manifest, &Manifest::row_scales, false,
                    job.row_scales);
  }
  if (status.ok()) {
    status = settle("--saturate", o.saturate, manifest, &Manifest::saturate, false, job.saturate);
  }
  if (status.ok()) {
    status =
        settle("--scale-size", o.scale_size, manifest, &Manifest::scale_size, 1.0, job.scale_size);
  }
  if (status.ok() && job.row_scales && job.a_type != DType::s8) {
    status =
        refuse(fmt::format("--row-scales is given, but --a-type is {}: rows that are "
                           "quantised on the way get scales of their own",
                           name(job.a_type)));
  }
  job.accumulators = o.accumulators;
  return status;
}

/// Devices name ranks and their places: nothing else may.
Status settle_devices(const JobOptions& o, Job& job) {
  if (!o.devices) return {};
  auto list = parse_device_list(*o.devices);
  if (!list.ok()) return list.status();
  if (auto launched = launched_size(); launched.ok() && *launched) {
    // The starter of this rank has bound it.
    if (static_cast<int>(list->size()) == **launched) return {};
    return refuse("--devices places ranks, but this process is a rank of a launched world already");
  }
  if (o.ranks_as == "thread") {
    return refuse("--devices binds processes, but --ranks-as is thread: leave one of them out");
  }
  if (static_cast<int>(list->size()) != job.ranks) {
    return refuse(fmt::format("--devices names {} devices for {} ranks: name one for each",
                              list->size(), job.ranks));
  }
  if (Status status = check_devices(*list); !status.ok()) {
    return refuse(fmt::format("--devices {}: {}", *o.devices, status.message()));
  }
  job.devices = std::move(list).value();
  return {};
}

/// As many as the rank's cores, or its share of them, and its share of the quota.
int compute_threads(const JobOptions& o, const Job& job) {
  if (o.compute_threads) return *o.compute_threads;
  int neighbours = job.ranks, sharers = job.ranks;
  if (job.transport.kind == TransportKind::mpi) {
    neighbours = mpi_place()->neighbours;
    sharers = mpi_place()->sharers;
  }
  const int threads = default_compute_threads(neighbours, o.devices ? 1 : sharers);
  return std::min(o.devices ? std::min(devices().cores_each, threads) : threads, kMostThreads);
}

}  // namespace

Result<Job> resolve(Verb verb, const Operator& op, const JobOptions& o) {
  Job job;
  job.op = &op;
  job.data_dir = o.data_dir;
  job.reuse = o.reuse;
  job.json = o.json;
  job.quiet = o.quiet;

  // gen makes data: what lies in the folder does not bind it.
  std::optional<Manifest> read;
  if (verb == Verb::run && !o.data_dir.empty()) {
    std::error_code error;
    if (!std::filesystem::is_directory(job.data_dir, error)) {
      return refuse(
          fmt::format("--data-dir {} is not a folder: make it with `tandem gen {} "
                      "--data-dir {}`, or leave it out to make inputs in memory",
                      o.data_dir, op.name, o.data_dir));
    }
    auto manifest = read_manifest(job.data_dir);
    if (!manifest.ok()) return manifest.status();
    read = *manifest;
    if (read && read->op != op.name) {
      return refuse(fmt::format("the data in {} was made for {}, not for {}", read->path.string(),
                                read->op, op.name));
    }
  }
  const Manifest* manifest = read ? &*read : nullptr;

  std::string a_type, c_type, b_layout;
  std::vector<std::int64_t> rows;
  Status status = settle_ranks(o, manifest, job, rows);
  if (status.ok()) status = settle_rows(o, manifest, std::move(rows), job);
  if (status.ok()) {
    status = settle<std::int64_t>("--k", o.k, manifest, &Manifest::k, 2048, job.k);
  }
  if (status.ok()) {
    status = settle<std::int64_t>("--n", o.n, manifest, &Manifest::n, 1024, job.n);
  }
  if (status.ok()) {
    status = settle("--a-type", o.a_type, manifest, &Manifest::a_type,
                    std::string(name(op.a_types.front())), a_type);
  }
  if (status.ok()) {
    status = settle("--c-type", o.c_type, manifest, &Manifest::c_type,
                    std::string(name(op.c_types.front())), c_type);
  }
  if (status.ok()) {
    status = settle("--b-layout", o.b_layout, manifest, &Manifest::b_layout, std::string("nk"),
                    b_layout);
  }
  if (status.ok()) {
    status = settle<std::uint64_t>("--seed", o.seed, manifest, &Manifest::seed, 1, job.seed);
  }
  std::string fill, file_names;
  if (status.ok()) {
    status = settle("--fill", o.fill, manifest, &Manifest::fill, std::string("random"), fill);
  }
  if (status.ok()) {
    status = settle("--file-names", o.file_names, manifest, &Manifest::file_names,
                    std::string("tandem"), file_names);
  }
  if (!status.ok()) return status;
  job.fill = fill == "ones" ? Fill::ones : Fill::random;
  job.file_names = file_names == "catccos" ? FileNames::catccos : FileNames::tandem;
  job.a_type = parse_dtype(a_type).value_or(op.a_types.front());
  job.c_type = parse_dtype(c_type).value_or(op.c_types.front());
  job.b_layout = parse_b_layout(b_layout).value_or(BLayout::nk);

  status = settle_dequant(o, manifest, job);
  if (status.ok()) status = settle_devices(o, job);
  if (!status.ok()) return status;
  if (o.verify == "whole") job.verify = Verify::whole;
  if (o.verify == "sample") job.verify = Verify::sampled;

  job.kernel = o.kernel;
  job.transfer = parse_transfer(o.transfer).value_or(Transfer::pull);
  if (o.transport == "sim") job.transport.kind = TransportKind::sim;
  if (o.transport == "mpi") job.transport.kind = TransportKind::mpi;
  if (o.link) {
    if (job.transport.kind != TransportKind::sim) {
      return refuse(fmt::format("--link {} is given, but --transport is {}: only sim has a link",
                                *o.link, o.transport));
    }
    auto link = parse_link(*o.link);
    if (!link.ok()) return link.status();
    job.transport.link = *link;
  }
  job.thread_ranks = o.ranks_as == "thread";
  job.compute_threads = compute_threads(o, job);
  job.default_threads = !o.compute_threads;
  job.comm_threads = o.comm_threads;
  job.tile_m = o.tile_m;
  job.tile_k = o.tile_k;
  job.workspace = parse_workspace(o.workspace).value_or(Workspace::full);
  job.stage_rows = o.stage_rows;
  job.stages = o.stages;
  if (job.workspace != Workspace::staged && (o.stage_rows != 0 || o.stages != 2)) {
    return refuse(fmt::format("--stages and --stage-rows are for --workspace staged, but it is {}",
                              o.workspace));
  }
  if (o.time_budget) {
    auto budget = parse_duration(*o.time_budget);
    if (!budget.ok()) return budget.status();
    job.time_budget = *budget;
  }
  job.iterations = o.iterations;
  job.warmup = o.warmup;
  if (o.timeout_ms) job.timeout = std::chrono::milliseconds(*o.timeout_ms);
  return job;
}

}  // namespace tandem::tool
