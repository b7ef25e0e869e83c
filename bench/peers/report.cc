// SPDX-License-Identifier: Apache-2.0
//
// Prints figures and turns them into JSON. Start reading at Report::figure().
#include "bench/peers/report.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "bench/peers/turns.h"

namespace tandem::bench {
namespace {

constexpr double kNoSlowerThan = 0.97;  // the noise that a comparison is granted
constexpr std::size_t kWorst = 10;

std::string ratio_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.3f}", *ratio) : "-";
}

nlohmann::json ratio_json(const std::optional<double>& ratio) {
  return ratio ? nlohmann::json(*ratio) : nlohmann::json();
}

std::string shape_text(const Shape& shape) {
  if (shape.m == shape.full_m) return shape.text();
  return fmt::format("{} (M {})", shape.text(), shape.full_m);
}

}  // namespace

void Report::heading(const std::string& text) { line(fmt::format("\n## {}", text)); }

void Report::line(const std::string& text) {
  if (!text_) return;
  std::puts(text.c_str());
  std::fflush(stdout);
}

void Report::figure_header(const std::string& last_ratio) {
  line(fmt::format("{:<28} {:<9} {:<5} {:>9} {:>10} {:>10} {:>14}  {}", "M x K x N", "peer", "type",
                   "G/s", "of ceiling", "to tandem", last_ratio, "check"));
}

void Report::figure(const Figure& f) {
  line(fmt::format("{:<28} {:<9} {:<5} {:>9.2f} {:>10} {:>10} {:>14}  {}", shape_text(f.shape),
                   f.peer, tandem::name(f.type), f.rate,
                   f.to_ceiling > 0 ? fmt::format("{:.3f}", f.to_ceiling) : "-",
                   ratio_text(f.to_tandem),
                   ratio_text(f.section == "floors" ? f.of_floor : f.to_tandem_f16), f.check));
  json_["results"].push_back(
      {{"section", f.section},
       {"peer", f.peer},
       {"type", tandem::name(f.type)},
       {"m", f.shape.m},
       {"k", f.shape.k},
       {"n", f.shape.n},
       {"full_m", f.shape.full_m},
       {"threads", f.threads},
       {"gflops", f.rate},
       {"ratio_to_ceiling", f.to_ceiling > 0 ? nlohmann::json(f.to_ceiling) : nlohmann::json()},
       {"ratio_to_tandem", ratio_json(f.to_tandem)},
       {"ratio_to_tandem_f16", ratio_json(f.to_tandem_f16)},
       {"time_over_floor", ratio_json(f.of_floor)},
       {"weight_bytes_ratio", f.weight_ratio},
       {"rounds", f.rounds},
       {"check", f.check}});
  figures_.push_back(f);
}

void Report::summarize_ceiling(DType type) {
  std::vector<std::pair<double, std::string>> ratios;
  for (const Figure& f : figures_) {
    if (f.section != "shapes" || f.peer != "tandem" || f.type != type || f.to_ceiling <= 0)
      continue;
    ratios.emplace_back(f.to_ceiling, shape_text(f.shape));
  }
  if (ratios.empty()) return;
  std::ranges::sort(ratios);
  std::vector<double> values;
  for (const auto& ratio : ratios) values.push_back(ratio.first);
  line(fmt::format("tandem {:<4} of its ceiling: median {:.3f}, lowest {:.3f}, {} shapes",
                   tandem::name(type), median(values), values.front(), values.size()));
  if (ratios.size() <= kWorst) return;
  for (std::size_t i = 0; i < kWorst; ++i) {
    line(fmt::format("    {:<28} {:.3f}", ratios[i].second, ratios[i].first));
  }
}

void Report::summarize_pair(DType type, const std::string& peer, DType peer_type) {
  std::vector<double> ratios;
  std::string slower;
  int slower_count = 0;
  for (const Figure& f : figures_) {
    if (f.section != "shapes" || f.peer != peer || f.type != peer_type) continue;
    const std::optional<double>& theirs = type == peer_type ? f.to_tandem : f.to_tandem_f16;
    if (!theirs || *theirs <= 0) continue;
    ratios.push_back(1 / *theirs);
    if (ratios.back() >= kNoSlowerThan) continue;
    ++slower_count;
    slower += fmt::format("\n    {:<28} {:.3f}", shape_text(f.shape), ratios.back());
  }
  if (ratios.empty()) return;
  line(fmt::format(
      "tandem {:<4} over {} {}: median {:.3f}, lowest {:.3f}; below {:.2f} at {} of {} shapes{}",
      tandem::name(type), peer, tandem::name(peer_type), median(ratios),
      *std::ranges::min_element(ratios), kNoSlowerThan, slower_count, ratios.size(), slower));
}

void Report::summary() {
  heading("Summary over the shapes");
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::s8}) summarize_ceiling(type);
  std::set<std::pair<std::string, DType>> others;
  for (const Figure& f : figures_) {
    if (f.peer != "tandem") others.emplace(f.peer, f.type);
  }
  for (const auto& [peer, type] : others) {
    summarize_pair(type, peer, type);
    if (type == DType::f32) summarize_pair(DType::f16, peer, type);
  }
}

bool Report::write(const std::string& path) {
  const std::string text = json_.dump(2);
  if (path == "-") {
    std::puts(text.c_str());
    return true;
  }
  std::ofstream file(path);
  file << text << '\n';
  file.close();
  return !file.fail();
}

}  // namespace tandem::bench
