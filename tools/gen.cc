// SPDX-License-Identifier: Apache-2.0
//
// `tandem gen OP`: writes every rank's inputs, the golden result by the reference path, and last
// the manifest. Works through one shard at a time, so that memory holds one shard and its rows of
// C, whatever M is. Start reading at generate().
#include <algorithm>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commands.h"
#include "job_options.h"
#include "manifest.h"
#include "matrix_memory.h"
#include "progress.h"
#include "report.h"
#include "report_json.h"
#include "tandem/system.h"
#include "verification.h"

namespace tandem::tool {
namespace {

/// Of use: no part of the library takes more threads than kMost.
int cores() {
  constexpr int kMost = 1024;
  return std::min(default_compute_threads(), kMost);
}

/// Element (i, j) of a random matrix does not depend on the others: rows are shared out.
void fill(const Input& input, const MatrixMemory& memory) {
  const std::int64_t rows = input.rows, parts = std::clamp<std::int64_t>(rows / 64, 1, cores());
  const auto fill_part = [&](std::int64_t part) {
    const std::int64_t first = rows * part / parts, last = rows * (part + 1) / parts;
    input.fill(memory.rows(first, last - first), input.seed, input.row0 + first);
  };
  std::vector<std::jthread> team;  // joined on every way out
  for (std::int64_t part = 1; part < parts; ++part) {
    try {
      team.emplace_back(fill_part, part);
    } catch (const std::system_error&) {
      fill_part(part);  // no more threads to be had
    }
  }
  fill_part(0);
}

Status write_file(const Path& path, const Matrix& m, Manifest& manifest) {
  auto file = MatrixWriter::create(path);
  if (!file.ok()) return file.status();
  if (Status s = file->write(m); !s.ok()) return s;
  if (Status s = file->commit(); !s.ok()) return s;
  manifest.files.push_back({path.filename().string(), file->bytes(), file->checksum().text()});
  return {};
}

/// The rank's rows of C by the reference, appended to the golden file. `shard` are all its inputs.
Status write_golden_rows(const Job& job, int rank, const std::vector<Input>& inputs,
                         const std::vector<Matrix>& shard, MatrixWriter& golden, Progress& bar) {
  const std::int64_t block = std::int64_t{256} * cores();
  const std::int64_t m = job.rows[static_cast<std::size_t>(rank)];
  auto c = MatrixMemory::create(job.c_type, std::min(block, m), job.n);
  if (!c.ok()) return c.status();
  for (std::int64_t row0 = 0; row0 < m; row0 += block) {
    const std::int64_t rows = std::min(block, m - row0);
    std::vector<Matrix> part = shard;
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (inputs[i].sharded) part[i] = rows_of(part[i], row0, rows);
    }
    Status s = job.op->reference(job, part, c->rows(0, rows), cores());
    if (!s.ok()) return s;
    if (s = golden.write(c->rows(0, rows)); !s.ok()) return s;
    bar.update(static_cast<double>(job.row0(rank) + row0 + rows) / static_cast<double>(job.m));
  }
  return {};
}

/// What is the same on every rank has one file, or one for each rank: the names decide.
bool has_file(const Job& job, int rank, const Input& input) {
  return rank == 0 || input.sharded || job.file_names == FileNames::tandem;
}

/// Whether there is room for what is to be written, in place of what is there.
Status check_space(const Job& job) {
  double needed = !job.verifies_whole() ? 0
                                        : static_cast<double>(job.m) * static_cast<double>(job.n) *
                                              static_cast<double>(size_of(job.c_type));
  for (int rank = 0; rank < job.ranks; ++rank) {
    for (const Input& input : job.op->inputs(job, rank)) {
      if (!has_file(job, rank, input)) continue;
      needed += static_cast<double>(input.rows) * static_cast<double>(input.cols) *
                static_cast<double>(size_of(input.type));
    }
  }
  double there = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(job.data_dir, error)) {
    std::error_code not_a_file;
    const auto size = entry.file_size(not_a_file);
    if (!not_a_file) there += static_cast<double>(size);
  }
  const auto space = std::filesystem::space(job.data_dir, error);
  if (error || needed <= static_cast<double>(space.available) + there) return {};
  return {StatusCode::kIo,
          fmt::format("{:.0f} bytes are to be written to {}, which has {} bytes free; free some "
                      "space, use smaller shapes, or use another --data-dir",
                      needed, job.data_dir.string(), space.available)};
}

Status generate(const Job& job, Manifest& manifest, Progress& bar) {
  if (Status s = make_folder(job.data_dir); !s.ok()) return s;
  if (Status s = check_space(job); !s.ok()) return s;
  // From here on the folder is not whole until the new manifest stands.
  std::error_code error;
  std::filesystem::remove(manifest.path, error);

  std::vector<MatrixMemory> memory(job.op->inputs(job, 0).size());
  std::optional<MatrixWriter> golden;
  if (job.verifies_whole()) {
    auto created = MatrixWriter::create(golden_path(job));
    if (!created.ok()) return created.status();
    golden.emplace(std::move(created).value());
  } else {
    std::filesystem::remove(golden_path(job), error);  // of other data
  }
  for (int rank = 0; rank < job.ranks; ++rank) {
    const std::vector<Input> inputs = job.op->inputs(job, rank);
    std::vector<Matrix> views;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (rank == 0 || inputs[i].sharded) {
        memory[i] = {};  // the former shard goes before the next comes
        auto made = MatrixMemory::create(inputs[i].type, inputs[i].rows, inputs[i].cols);
        if (!made.ok()) return made.status();
        memory[i] = std::move(made).value();
        fill(inputs[i], memory[i]);
      }
      views.push_back(memory[i].view());
      if (!has_file(job, rank, inputs[i])) continue;
      Status s = write_file(input_path(job, rank, inputs[i]), views[i], manifest);
      if (!s.ok()) return s;
    }
    if (!golden) {
      bar.update(static_cast<double>(rank + 1) / job.ranks);
      continue;
    }
    Status s = write_golden_rows(job, rank, inputs, views, *golden, bar);
    if (!s.ok()) return s;
  }
  if (!golden) return write_manifest(manifest);
  if (Status s = golden->commit(); !s.ok()) return s;
  manifest.files.push_back(
      {golden_path(job).filename().string(), golden->bytes(), golden->checksum().text()});
  return write_manifest(manifest);
}

/// Whether the folder already holds what would be generated; takes over the list of files.
bool can_reuse(const Job& job, Manifest& manifest) {
  auto read = read_manifest(job.data_dir);
  if (!read.ok() || !*read || !same_data(**read, manifest)) return false;
  std::vector<std::byte> block(1 << 20);
  for (const DataFile& file : (*read)->files) {
    const File stream(std::fopen((job.data_dir / file.name).c_str(), "rb"));
    if (!stream) return false;
    Checksum checksum;
    std::int64_t bytes = 0;
    std::size_t got = 0;
    while ((got = std::fread(block.data(), 1, block.size(), stream.get())) > 0) {
      checksum.add(block.data(), got);
      bytes += static_cast<std::int64_t>(got);
    }
    if (bytes != file.bytes || checksum.text() != file.checksum) return false;
  }
  const auto is_golden = [&job](const DataFile& f) {
    return f.name == golden_path(job).filename();
  };
  const auto& files = (*read)->files;
  if (std::any_of(files.begin(), files.end(), is_golden) != job.verifies_whole()) return false;
  manifest.files = files;
  return true;
}

Outcome generate_or_keep(const Job& job) {
  if (Status s = check_memory(job, gen_bytes(job), 1); !s.ok()) return failed(s);
  Manifest manifest = manifest_of(job);
  const bool reused = job.reuse && can_reuse(job, manifest);
  if (!reused) {
    Progress bar(!job.quiet, "gen");
    if (Status s = generate(job, manifest, bar); !s.ok()) return failed(s);
  }
  std::int64_t bytes = 0;
  for (const DataFile& file : manifest.files) bytes += file.bytes;
  Outcome outcome;
  if (job.json) {
    outcome.output = gen_json(job, manifest.files, reused);
  } else if (!job.quiet) {
    std::vector<std::string> names;
    for (const Input& input : job.op->inputs(job, 0)) {
      names.push_back(input_file_name(job, "<rank>", input));
    }
    names.push_back(job.verifies_whole() ? "golden.bin"
                                         : "no golden.bin (run checks a sample; --verify whole)");
    outcome.output = fmt::format("{} {} ({:.1f} MiB) in {}: {}\n", reused ? "Kept" : "Wrote",
                                 counted(static_cast<std::int64_t>(manifest.files.size()), "file"),
                                 static_cast<double>(bytes) / (1 << 20), job.data_dir.string(),
                                 fmt::join(names, ", "));
  }
  return outcome;
}

}  // namespace

Outcome gen(const Operator& op, const JobOptions& options) {
  auto job = resolve(Verb::gen, op, options);
  return job.ok() ? generate_or_keep(*job) : failed(job.status());
}

}  // namespace tandem::tool
