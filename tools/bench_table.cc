// SPDX-License-Identifier: Apache-2.0
//
// Columns and lines of the table.
#include "bench_table.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

#include "csv.h"
#include "operators.h"
#include "tandem/system.h"

namespace tandem::tool {
namespace {

using Named = std::vector<std::pair<std::string, std::string>>;

std::string yes(bool value) { return value ? "true" : "false"; }

/// What must be the same for all lines of a file.
Named configuration(const Job& job) {
  const bool sim = job.transport.kind == TransportKind::sim;
  return {{"op", std::string(job.op->name)},
          {"ranks", std::to_string(job.ranks)},
          {"ranks_as", job.thread_ranks ? "thread" : "process"},
          {"a_type", std::string(name(job.a_type))},
          {"c_type", std::string(name(job.c_type))},
          {"b_layout", std::string(name(job.b_layout))},
          {"bias", yes(job.bias)},
          {"row_scales", yes(job.row_scales)},
          {"saturate", yes(job.saturate)},
          {"transport", std::string(name(job.transport.kind))},
          {"link", sim ? to_string(job.transport.link) : ""},
          {"transfer", std::string(name(job.transfer))},
          {"workspace", std::string(name(job.workspace))},
          {"stages", std::to_string(job.stages)},
          {"stage_rows", std::to_string(job.stage_rows)},
          {"kernel_option", job.kernel},
          {"compute_threads", std::to_string(job.compute_threads)},
          {"comm_threads", std::to_string(job.comm_threads)},
          {"tile_m_option", std::to_string(job.tile_m)},
          {"tile_k_option", std::to_string(job.tile_k)},
          {"iterations_option", std::to_string(job.iterations)},
          {"warmup", std::to_string(job.warmup)},
          {"seed", std::to_string(job.seed)},
          {"version", version()},
          {"cpu", system_info().cpu}};
}

/// What differs from shape to shape; without a measurement only the names count.
Named result(const Job& job, const Measurement& m, double peak_rss_mib, const std::string& status,
             const std::string& reason) {
  const auto number = [](double value) { return fmt::format("{}", value); };
  return {{"m", std::to_string(job.m)},
          {"k", std::to_string(job.k)},
          {"n", std::to_string(job.n)},
          {"status", status},
          {"reason", reason},
          {"iterations", std::to_string(m.iterations)},
          {"compute_only_ms", number(m.compute_only_ms.median)},
          {"comm_only_ms", number(m.comm_only_ms.median)},
          {"sequential_ms", number(m.sequential_ms.median)},
          {"pipelined_ms", number(m.pipelined_ms.median)},
          {"pipelined_min_ms", number(m.pipelined_ms.min)},
          {"pipelined_max_ms", number(m.pipelined_ms.max)},
          {"speedup", number(m.speedup)},
          {"overlap_efficiency", number(m.overlap_efficiency)},
          {"pipelined_over_max", number(m.pipelined_over_max)},
          {"exposed_comm_ms", number(m.exposed_comm_ms)},
          {"gflops_per_rank", number(m.gflops_per_rank)},
          {"verified", yes(m.verified)},
          {"verified_rows", std::to_string(m.verified_rows)},
          {"kernel", m.kernel},
          {"chunks_per_source", std::to_string(m.chunks_per_source)},
          {"tile_m", std::to_string(m.tile_m)},
          {"tile_k", std::to_string(m.tile_k)},
          {"window_bytes", std::to_string(m.window_bytes)},
          {"peak_rss_mib", number(peak_rss_mib)}};
}

std::vector<std::string> fields_of(const Named& first, const Named& second) {
  std::vector<std::string> fields;
  for (const Named* part : {&first, &second}) {
    for (const auto& [name, value] : *part) fields.push_back(value);
  }
  return fields;
}

std::size_t place(std::string_view column) {
  const auto& names = BenchTable::columns();
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), column) - names.begin());
}

Status refuse(const Path& path, const std::string& why) {
  return {StatusCode::kInvalidArgument,
          fmt::format("{} {}: take another --out, or remove the file", path.string(), why)};
}

}  // namespace

const std::string& BenchRow::text(std::string_view column) const { return fields_[place(column)]; }

double BenchRow::number(std::string_view column) const {
  const std::string& field = text(column);
  double value = 0;
  std::from_chars(field.data(), field.data() + field.size(), value);
  return value;
}

Shape BenchRow::shape() const {
  return {static_cast<std::int64_t>(number("m")), static_cast<std::int64_t>(number("k")),
          static_cast<std::int64_t>(number("n"))};
}

const std::vector<std::string>& BenchTable::columns() {
  static const std::vector<std::string> names = [] {
    Job any;
    any.op = operators().front();
    std::vector<std::string> all;
    for (const Named& part : {result(any, {}, 0, "", ""), configuration(any)}) {
      for (const auto& [name, value] : part) all.push_back(name);
    }
    return all;
  }();
  return names;
}

Result<BenchTable> BenchTable::open(const Path& path, const Job& job) {
  BenchTable table;
  table.path_ = path;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return table;
  if (!std::filesystem::is_regular_file(path, error)) return refuse(path, "is no file");
  const std::string content = read_text(path);
  const Named wanted = configuration(job);
  int number = 0;
  for (std::size_t begin = 0, end = 0; (end = content.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    std::vector<std::string> fields =
        split_csv(std::string_view(content).substr(begin, end - begin));
    table.whole_bytes_ = end + 1;
    if (++number == 1) {
      if (fields != columns()) {
        return refuse(path, "was not written by this version of `tandem bench --shapes`");
      }
      continue;
    }
    if (fields.size() != columns().size()) {
      return refuse(path, fmt::format("has {} fields in line {}, not {}", fields.size(), number,
                                      columns().size()));
    }
    const BenchRow& row = table.rows_.emplace_back(std::move(fields));
    for (const auto& [name, value] : wanted) {
      if (row.text(name) == value) continue;
      return refuse(path, fmt::format("was measured with {} '{}', and this run has '{}'", name,
                                      row.text(name), value));
    }
  }
  if (number == 0 && !content.empty()) {
    return refuse(path, "was not written by this version of `tandem bench --shapes`");
  }
  return table;
}

bool BenchTable::has(const Shape& shape) const {
  return std::any_of(rows_.begin(), rows_.end(),
                     [&shape](const BenchRow& row) { return row.shape() == shape; });
}

Status BenchTable::add(const Job& job, const Measurement& m, double peak_rss_mib) {
  return append(fields_of(result(job, m, peak_rss_mib, m.verified ? "ok" : "wrong", m.mismatch),
                          configuration(job)));
}

Status BenchTable::add_failed(const Job& job, const std::string& reason) {
  return append(fields_of(result(job, {}, 0, "failed", reason), configuration(job)));
}

Status BenchTable::append(std::vector<std::string> fields) {
  std::error_code error;
  const bool existed = std::filesystem::exists(path_, error);
  // What was there before stays, and nothing but that: no empty file, no half line.
  const auto failure = [this, existed](int number) {
    std::error_code ignored;
    if (existed) {
      std::filesystem::resize_file(path_, whole_bytes_, ignored);
    } else {
      std::filesystem::remove(path_, ignored);
    }
    return Status(StatusCode::kIo, fmt::format("{}: cannot be written: {}; take another --out",
                                               path_.string(), std::strerror(number)));
  };
  std::string text = join_csv(fields) + "\n";
  if (whole_bytes_ == 0) text = join_csv(columns()) + "\n" + text;
  if (existed) std::filesystem::resize_file(path_, whole_bytes_, error);
  if (existed && error) return failure(error.value());
  File file(std::fopen(path_.c_str(), "ab"));
  if (!file) return failure(errno);
  const bool written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  const int write_error = errno;
  // Closing writes what is buffered: a full disk may show only here.
  const bool closed = std::fclose(file.release()) == 0;
  if (!written || !closed) return failure(written ? errno : write_error);
  whole_bytes_ += text.size();
  rows_.emplace_back(std::move(fields));
  return {};
}

}  // namespace tandem::tool
