// SPDX-License-Identifier: Apache-2.0
//
// Raw matrix files, row after row without a header, as the seed's scripts write them. Reading
// checks the size first; writing goes to a temporary name, so that no partial file passes as whole.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "tandem/matrix.h"
#include "tandem/status.h"

namespace tandem::tool {

using Path = std::filesystem::path;

/// FNV-1a over 64-bit words: tells whether a file still is what was written. Not cryptographic.
class Checksum {
 public:
  void add(const std::byte* data, std::size_t size);
  [[nodiscard]] std::string text() const;  ///< 16 hexadecimal digits

 private:
  void add_word(std::uint64_t word);
  std::uint64_t state_ = 0xcbf29ce484222325u;
  std::uint64_t tail_ = 0;  // bytes that do not make a word yet
  unsigned tail_bytes_ = 0;
};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

/// Reads a file of a known size from beginning to end.
class MatrixReader {
 public:
  /// `what` says how the size comes about, for the message: "1024 x 2048 f16".
  /// Errors: kInvalidArgument (missing, unreadable, wrong size).
  static Result<MatrixReader> open(const Path& path, std::int64_t bytes, std::string_view what);
  /// The next `m.rows` rows; `m` is dense. Errors: kIo.
  Status read(const Matrix& m);
  /// Goes to a byte of the file. Errors: kIo.
  Status seek(std::int64_t offset);

 private:
  Path path_;
  File file_;
};

/// Writes a file that appears under its name, whole, at commit(); until then it is not there.
class MatrixWriter {
 public:
  /// `option` is the one by which a user can choose another place. Errors: kIo.
  static Result<MatrixWriter> create(const Path& path, const char* option = "--data-dir");
  MatrixWriter(MatrixWriter&& other) noexcept;
  MatrixWriter& operator=(MatrixWriter&&) = delete;
  ~MatrixWriter();

  Status write(const ConstMatrix& m);  ///< appends; `m` is dense
  Status write(std::string_view text);
  Status commit();

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] const Checksum& checksum() const { return checksum_; }

 private:
  MatrixWriter() = default;
  Status append(const void* data, std::size_t size);
  [[nodiscard]] Status error(const char* doing, int number) const;

  Path path_, partial_;
  const char* option_ = nullptr;
  int place_ = -1;
  File file_;
  std::int64_t bytes_ = 0;
  Checksum checksum_;
};

/// Makes the folder and those above it. Errors: kIo.
Status make_folder(const Path& folder);

/// Text of a whole file; empty when it cannot be read.
[[nodiscard]] std::string read_text(const Path& path);

}  // namespace tandem::tool
