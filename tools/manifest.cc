// SPDX-License-Identifier: Apache-2.0
//
// The manifest as JSON.
#include "manifest.h"

#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "operators.h"
#include "tandem/system.h"

namespace tandem::tool {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Manifest& m) {
  Json files = Json::array();
  for (const DataFile& file : m.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"checksum", file.checksum}});
  }
  return {{"version", m.version},
          {"op", m.op},
          {"ranks", m.ranks},
          {"m", m.m},
          {"k", m.k},
          {"n", m.n},
          {"rows", m.rows},
          {"a_type", m.a_type},
          {"c_type", m.c_type},
          {"b_layout", m.b_layout},
          {"seed", m.seed},
          {"fill", m.fill},
          {"file_names", m.file_names},
          {"bias", m.bias},
          {"row_scales", m.row_scales},
          {"saturate", m.saturate},
          {"scale_size", m.scale_size},
          {"files", std::move(files)}};
}

/// Throws nlohmann's exceptions when something is missing or of another type.
Manifest from_json(const Json& json) {
  Manifest m;
  json.at("version").get_to(m.version);
  json.at("op").get_to(m.op);
  json.at("ranks").get_to(m.ranks);
  json.at("m").get_to(m.m);
  json.at("k").get_to(m.k);
  json.at("n").get_to(m.n);
  json.at("rows").get_to(m.rows);
  json.at("a_type").get_to(m.a_type);
  json.at("c_type").get_to(m.c_type);
  json.at("b_layout").get_to(m.b_layout);
  json.at("seed").get_to(m.seed);
  json.at("fill").get_to(m.fill);
  json.at("file_names").get_to(m.file_names);
  json.at("bias").get_to(m.bias);
  json.at("row_scales").get_to(m.row_scales);
  json.at("saturate").get_to(m.saturate);
  json.at("scale_size").get_to(m.scale_size);
  for (const Json& file : json.at("files")) {
    m.files.push_back({file.at("name"), file.at("bytes"), file.at("checksum")});
  }
  return m;
}

}  // namespace

Path manifest_path(const Path& folder) { return folder / "manifest.json"; }

Manifest manifest_of(const Job& job) {
  return {.path = manifest_path(job.data_dir),
          .version = version(),
          .op = std::string(job.op->name),
          .ranks = job.ranks,
          .m = job.m,
          .k = job.k,
          .n = job.n,
          .rows = job.rows,
          .a_type = std::string(name(job.a_type)),
          .c_type = std::string(name(job.c_type)),
          .b_layout = std::string(name(job.b_layout)),
          .seed = job.seed,
          .fill = job.fill == Fill::ones ? "ones" : "random",
          .file_names = job.file_names == FileNames::catccos ? "catccos" : "tandem",
          .bias = job.bias,
          .row_scales = job.row_scales,
          .saturate = job.saturate,
          .scale_size = job.scale_size,
          .files = {}};
}

bool same_data(const Manifest& a, const Manifest& b) {
  Json x = to_json(a), y = to_json(b);
  x.erase("files");
  y.erase("files");
  return x == y;
}

Result<std::optional<Manifest>> read_manifest(const Path& folder) {
  const Path path = manifest_path(folder);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::optional<Manifest>();
  try {
    Manifest manifest = from_json(Json::parse(read_text(path)));
    manifest.path = path;
    return std::optional<Manifest>(std::move(manifest));
  } catch (const Json::exception& e) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{}: cannot be understood ({}); make the data again with `tandem "
                              "gen`, or remove the file",
                              path.string(), e.what()));
  }
}

Status write_manifest(const Manifest& manifest) {
  auto writer = MatrixWriter::create(manifest.path);
  if (!writer.ok()) return writer.status();
  if (Status s = writer->write(to_json(manifest).dump(2) + "\n"); !s.ok()) return s;
  return writer->commit();
}

}  // namespace tandem::tool
