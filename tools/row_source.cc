// SPDX-License-Identifier: Apache-2.0
//
// Files stay open: verification asks for the next rows of the same shard again and again.
#include "row_source.h"

#include "verification.h"

namespace tandem::tool {

Result<RowSource::Source*> RowSource::open(int rank, std::size_t input) {
  const auto key = std::make_pair(rank, input);
  const auto found = sources_.find(key);
  if (found != sources_.end()) return &found->second;
  Source source{job_.op->inputs(job_, rank)[input], std::nullopt};
  if (!job_.data_dir.empty()) {
    auto file = open_input(job_, rank, source.input);
    if (!file.ok()) return file.status();
    source.file.emplace(std::move(file).value());
  }
  return &sources_.emplace(key, std::move(source)).first->second;
}

Status RowSource::read(int rank, std::size_t input, std::int64_t row0, const Matrix& to) {
  auto source = open(rank, input);
  if (!source.ok()) return source.status();
  const Input& what = (*source)->input;
  if (!(*source)->file) {
    what.fill(to, what.seed, what.row0 + row0);
    return {};
  }
  Status status =
      (*source)->file->seek(row0 * what.cols * static_cast<std::int64_t>(size_of(what.type)));
  return status.ok() ? (*source)->file->read(to) : status;
}

Result<RowBlock> RowBlock::create(const Job& job, const std::vector<Matrix>& inputs,
                                  std::int64_t most_rows) {
  RowBlock block;
  block.others_ = inputs;
  const std::vector<Input> described = job.op->inputs(job, 0);
  for (std::size_t i = 0; i < described.size(); ++i) {
    if (!described[i].sharded) continue;
    auto memory = MatrixMemory::create(described[i].type, most_rows, described[i].cols);
    if (!memory.ok()) return memory.status();
    block.sharded_.emplace(i, std::move(memory).value());
  }
  return block;
}

std::vector<Matrix> RowBlock::inputs(std::int64_t rows) const {
  std::vector<Matrix> all = others_;
  for (const auto& [place, memory] : sharded_) all[place] = memory.rows(0, rows);
  return all;
}

Status RowBlock::fill(RowSource& source, int rank, std::int64_t row0, std::int64_t rows,
                      std::int64_t at) const {
  for (const auto& [place, memory] : sharded_) {
    if (Status s = source.read(rank, place, row0, memory.rows(at, rows)); !s.ok()) return s;
  }
  return {};
}

}  // namespace tandem::tool
