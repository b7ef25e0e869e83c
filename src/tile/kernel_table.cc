// SPDX-License-Identifier: Apache-2.0
//
// The kernel table and the choice from it. A target is added by appending its rows here: selection,
// tests and benches follow from the table. Start reading at select_kernel().
#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tile/dot_kernels.h"
#include "tile/kernel.h"
#include "tile/scalar_kernel.h"
#include "tile/simd_kernels.h"

namespace tandem::tile {
namespace {

std::string join(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

/// When a feature is missing: "needs fma, f16c, which this CPU lacks".
bool has_all(std::initializer_list<std::pair<bool, std::string_view>> needed, std::string* why) {
  std::vector<std::string_view> missing;
  for (const auto& [present, feature] : needed) {
    if (!present) missing.push_back(feature);
  }
  if (missing.empty()) return true;
  if (why != nullptr) *why = fmt::format("needs {}, which this CPU lacks", join(missing));
  return false;
}

/// Best first: a wider vector is never slower in bench/tile_bench.cc, and the scalar target is for
/// CPUs that run nothing else.
std::vector<Kernel> make_table() {
  std::vector<Kernel> table;
  for (const auto kernels :
       {avx512_bf16_kernels(), avx512_vnni_kernels(), avx512_kernels(), avx_vnni_kernels(),
        avx2_kernels(), neon_bf16_kernels(), neon_i8mm_kernels(), neon_dot_kernels(),
        neon_kernels(), scalar_kernels(), scalar_s8_kernels()}) {
    table.insert(table.end(), kernels.begin(), kernels.end());
  }
  return table;
}

std::vector<std::string_view> target_names() {
  std::vector<std::string_view> names;
  for (const Kernel& kernel : kernel_table()) {
    if (std::ranges::find(names, kernel.target) == names.end()) names.push_back(kernel.target);
  }
  return names;
}

}  // namespace

bool runs_avx512(const base::CpuFeatures& cpu, std::string* why) {
  return has_all({{cpu.avx2, "avx2"},
                  {cpu.fma, "fma"},
                  {cpu.f16c, "f16c"},
                  {cpu.avx512f, "avx512f"},
                  {cpu.avx512bw, "avx512bw"},
                  {cpu.avx512dq, "avx512dq"},
                  {cpu.avx512vl, "avx512vl"}},
                 why);
}

bool runs_avx512_bf16(const base::CpuFeatures& cpu, std::string* why) {
  return has_all({{cpu.avx512f, "avx512f"},
                  {cpu.avx512bw, "avx512bw"},
                  {cpu.avx512dq, "avx512dq"},
                  {cpu.avx512vl, "avx512vl"},
                  {cpu.avx512_bf16, "avx512_bf16"}},
                 why);
}

bool runs_avx512_vnni(const base::CpuFeatures& cpu, std::string* why) {
  return has_all({{cpu.avx512f, "avx512f"},
                  {cpu.avx512bw, "avx512bw"},
                  {cpu.avx512dq, "avx512dq"},
                  {cpu.avx512vl, "avx512vl"},
                  {cpu.avx512_vnni, "avx512_vnni"}},
                 why);
}

bool runs_avx_vnni(const base::CpuFeatures& cpu, std::string* why) {
  return has_all({{cpu.avx2, "avx2"}, {cpu.fma, "fma"}, {cpu.avx_vnni, "avx_vnni"}}, why);
}

bool runs_neon_bf16(const base::CpuFeatures& cpu, std::string* why) {
  return has_all({{cpu.neon, "neon"}, {cpu.bf16, "bf16"}}, why);
}

bool runs_neon_dot(const base::CpuFeatures& cpu, std::string* why) {
  return has_all({{cpu.neon, "neon"}, {cpu.dotprod, "dotprod"}}, why);
}

bool runs_neon_i8mm(const base::CpuFeatures& cpu, std::string* why) {
  return has_all({{cpu.neon, "neon"}, {cpu.i8mm, "i8mm"}}, why);
}

bool runs_avx2(const base::CpuFeatures& cpu, std::string* why) {
  return has_all({{cpu.avx2, "avx2"}, {cpu.fma, "fma"}, {cpu.f16c, "f16c"}}, why);
}

bool runs_neon(const base::CpuFeatures& cpu, std::string* why) {
  return has_all({{cpu.neon, "neon"}}, why);
}

std::span<const Kernel> kernel_table() {
  static const std::vector<Kernel> table = make_table();
  return table;
}

Result<const Kernel*> select_kernel(DType type, std::string_view target,
                                    const base::CpuFeatures& cpu, Trust trust) {
  const auto names = target_names();
  if (target != "auto" && std::ranges::find(names, target) == names.end()) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("unknown kernel target '{}': use auto, {}", target, join(names)));
  }
  std::string why = "the build has no such kernel";
  for (const Kernel& kernel : kernel_table()) {
    if (kernel.type != type || (target != "auto" && kernel.target != target)) continue;
    if (!kernel.runs_on(cpu, &why)) continue;
    const Status found = trust == nullptr ? Status() : trust(kernel);
    if (found.ok()) return &kernel;
    why = found.message();
  }
  return Status(StatusCode::kUnsupported,
                fmt::format("kernel target '{}' cannot multiply {} here: {}; use auto", target,
                            name(type), why));
}

}  // namespace tandem::tile
