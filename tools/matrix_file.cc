// SPDX-License-Identifier: Apache-2.0
//
// Matrix files over the C library's streams, whose errors carry errno: what a user needs to read
// about a full disk or a missing permission.
#include "matrix_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "partial_files.h"

namespace tandem::tool {
namespace {

constexpr std::uint64_t kFnvPrime = 0x100000001b3u;

}  // namespace

void Checksum::add_word(std::uint64_t word) { state_ = (state_ ^ word) * kFnvPrime; }

void Checksum::add(const std::byte* data, std::size_t size) {
  while (size > 0) {
    if (tail_bytes_ == 0 && size >= sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, data, sizeof word);
      add_word(word);
      data += sizeof word;
      size -= sizeof word;
      continue;
    }
    tail_ |= static_cast<std::uint64_t>(*data) << (8 * tail_bytes_);
    ++data;
    --size;
    if (++tail_bytes_ == sizeof(std::uint64_t)) {
      add_word(tail_);
      tail_ = tail_bytes_ = 0;
    }
  }
}

std::string Checksum::text() const {
  Checksum closed = *this;
  closed.add_word(tail_);
  closed.add_word(tail_bytes_);
  return fmt::format("{:016x}", closed.state_);
}

Result<MatrixReader> MatrixReader::open(const Path& path, std::int64_t bytes,
                                        std::string_view what) {
  const auto refuse = [&](std::string reason) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{}: {}", path.string(), reason));
  };
  MatrixReader reader;
  reader.path_ = path;
  reader.file_.reset(std::fopen(path.c_str(), "rb"));
  if (!reader.file_) {
    const int error = errno;
    return refuse(fmt::format("cannot be read: {}; {}", std::strerror(error),
                              error == ENOENT ? "make the files with `tandem gen`, or check the "
                                                "folder and the number of ranks"
                                              : "check the name and its permissions"));
  }
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) return refuse(fmt::format("is not a file with a size: {}", error.message()));
  if (size != static_cast<std::uintmax_t>(bytes)) {
    return refuse(
        fmt::format("has {} bytes, expected {} ({}); check the shape and type options, "
                    "or make the file again",
                    size, bytes, what));
  }
  return reader;
}

Status MatrixReader::read(const Matrix& m) {
  const auto size = static_cast<std::size_t>(m.rows * m.cols) * size_of(m.type);
  if (std::fread(m.data, 1, size, file_.get()) == size) return {};
  return {StatusCode::kIo,
          fmt::format("{}: {}", path_.string(),
                      std::ferror(file_.get()) != 0 ? std::strerror(errno)
                                                    : "became shorter while it was read")};
}

Status MatrixReader::seek(std::int64_t offset) {
  if (fseeko(file_.get(), static_cast<off_t>(offset), SEEK_SET) == 0) return {};
  return {StatusCode::kIo, fmt::format("{}: {}", path_.string(), std::strerror(errno))};
}

Result<MatrixWriter> MatrixWriter::create(const Path& path, const char* option) {
  MatrixWriter writer;
  writer.path_ = path;
  writer.option_ = option;
  // Hidden and with the process's number: two jobs never write into the same partial file.
  writer.partial_ =
      path.parent_path() / fmt::format(".{}.{}.partial", path.filename().string(), getpid());
  writer.place_ = remember_partial_file(writer.partial_.string());
  writer.file_.reset(std::fopen(writer.partial_.c_str(), "wb"));
  if (!writer.file_) return writer.error("cannot be written", errno);
  return writer;
}

MatrixWriter::MatrixWriter(MatrixWriter&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::move(other.partial_)),
      option_(other.option_),
      place_(std::exchange(other.place_, -1)),
      file_(std::move(other.file_)),
      bytes_(other.bytes_),
      checksum_(other.checksum_) {}

MatrixWriter::~MatrixWriter() {
  if (file_) {
    file_.reset();
    unlink(partial_.c_str());
  }
  forget_partial_file(place_);
}

Status MatrixWriter::error(const char* doing, int number) const {
  std::string remedy = "check the folder and its permissions";
  if (number == ENOSPC || number == EDQUOT) {
    remedy = fmt::format("free some space, or use another {}", option_);
  }
  if (number == EFBIG) remedy = "raise the file size limit (`ulimit -f`)";
  return {StatusCode::kIo,
          fmt::format("{} {}: {}; {}", path_.string(), doing, std::strerror(number), remedy)};
}

Status MatrixWriter::append(const void* data, std::size_t size) {
  errno = 0;
  if (std::fwrite(data, 1, size, file_.get()) != size) {
    return error("cannot be written", errno);
  }
  bytes_ += static_cast<std::int64_t>(size);
  checksum_.add(static_cast<const std::byte*>(data), size);
  return {};
}

Status MatrixWriter::write(const ConstMatrix& m) {
  return append(m.data, static_cast<std::size_t>(m.rows * m.cols) * size_of(m.type));
}

Status MatrixWriter::write(std::string_view text) { return append(text.data(), text.size()); }

Status MatrixWriter::commit() {
  // Closing writes what is buffered: a full disk may show only here.
  const bool closed = std::fclose(file_.release()) == 0;
  const int close_error = errno;
  std::error_code failed;
  if (closed) std::filesystem::rename(partial_, path_, failed);
  if (closed && !failed) return {};
  unlink(partial_.c_str());
  return error("cannot be written", closed ? failed.value() : close_error);
}

Status make_folder(const Path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (!failed && std::filesystem::is_directory(folder, failed) && !failed) return {};
  return {StatusCode::kIo,
          fmt::format("folder {} cannot be made: {}; use another --data-dir", folder.string(),
                      failed ? failed.message() : "it is a file")};
}

std::string read_text(const Path& path) {
  const File file(std::fopen(path.c_str(), "rb"));
  std::string text;
  char block[4096];
  std::size_t got = 0;
  while (file && (got = std::fread(block, 1, sizeof block, file.get())) > 0) {
    text.append(block, got);
  }
  return text;
}

}  // namespace tandem::tool
