// SPDX-License-Identifier: Apache-2.0
//
// manifest.json: how the files of a data folder were made. gen writes it last, so a folder with a
// manifest is whole; run takes from it what its options leave out; `gen --reuse` decides by it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job.h"
#include "matrix_file.h"
#include "tandem/status.h"

namespace tandem::tool {

struct DataFile {
  std::string name;
  std::int64_t bytes = 0;
  std::string checksum;
  bool operator==(const DataFile&) const = default;
};

struct Manifest {
  Path path;
  std::string version;  ///< of the command that made the data
  std::string op;
  int ranks = 0;
  std::int64_t m = 0, k = 0, n = 0;
  std::vector<std::int64_t> rows;
  std::string a_type, c_type, b_layout;
  std::uint64_t seed = 0;
  std::string fill, file_names;
  bool bias = true, row_scales = false, saturate = false;
  double scale_size = 1;
  std::vector<DataFile> files;
};

[[nodiscard]] Path manifest_path(const Path& folder);
/// What a manifest of this job says, without files.
[[nodiscard]] Manifest manifest_of(const Job& job);
/// Whether both describe the same data; the files apart.
[[nodiscard]] bool same_data(const Manifest& a, const Manifest& b);

/// Empty when the folder has none. Errors: kInvalidArgument when it cannot be understood.
[[nodiscard]] Result<std::optional<Manifest>> read_manifest(const Path& folder);
Status write_manifest(const Manifest& manifest);

}  // namespace tandem::tool
