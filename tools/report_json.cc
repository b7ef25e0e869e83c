// SPDX-License-Identifier: Apache-2.0
//
// JSON for the commands. Keys are part of the interface: add, do not rename.
#include "report_json.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace tandem::tool {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json problem_json(const Job& job) {
  Json json = {{"op", job.op->name},
               {"ranks", job.ranks},
               {"m", job.m},
               {"k", job.k},
               {"n", job.n},
               {"rows", job.rows},
               {"a_type", name(job.a_type)},
               {"c_type", name(job.c_type)},
               {"b_layout", name(job.b_layout)},
               {"seed", job.seed}};
  if (job.op->s8_weights) {
    json["bias"] = job.bias;
    json["row_scales"] = job.row_scales;
    json["saturate"] = job.saturate;
    json["accumulators"] = job.accumulators;
  }
  return json;
}

Json job_json(const Job& job, const Prepared& prepared) {
  Json json = problem_json(job);
  const bool sim = job.transport.kind == TransportKind::sim;
  json["ranks_as"] = job.thread_ranks ? "thread" : "process";
  json["transport"] = name(job.transport.kind);
  json["link"] = sim ? Json(to_string(job.transport.link)) : Json();
  json["transfer"] = name(job.transfer);
  json["workspace"] = name(job.workspace);
  json["stages"] = job.workspace == Workspace::staged ? Json(job.stages) : Json();
  json["stage_rows"] = job.workspace == Workspace::staged ? Json(job.stage_rows) : Json();
  json["kernel"] = prepared.kernel;
  json["compute_threads"] = job.compute_threads;
  json["comm_threads"] = job.comm_threads;
  json["chunks_per_source"] = prepared.chunks_per_source;
  json["tile_m"] = prepared.tile_m;
  json["tile_k"] = prepared.tile_k;
  return json;
}

Json timing_json(const Timing& timing) {
  return {{"median", timing.median}, {"min", timing.min}, {"max", timing.max}};
}

}  // namespace

std::string info_json(const SystemInfo& s) {
  Json kernels = Json::array();
  for (const KernelInfo& k : s.kernels) {
    kernels.push_back({{"type", name(k.type)},
                       {"target", k.target},
                       {"mr", k.mr},
                       {"nr", k.nr},
                       {"runnable", k.runnable},
                       {"chosen", k.chosen},
                       {"tested", k.tested},
                       {"self_check", k.self_check},
                       {"reason", k.reason}});
  }
  return text_of({{"version", s.version},
                  {"cpu", s.cpu},
                  {"cores", s.cores},
                  {"hardware_threads", s.hardware_threads},
                  {"affinity", s.affinity},
                  {"cores_allowed", s.cores_allowed},
                  {"cpu_quota", s.cpu_quota},
                  {"default_compute_threads", s.default_compute_threads},
                  {"numa_nodes", s.numa_nodes},
                  {"l1d_bytes", s.l1d_bytes},
                  {"l2_bytes", s.l2_bytes},
                  {"l3_bytes", s.l3_bytes},
                  {"memory_total", s.memory_total},
                  {"memory_available", s.memory_available},
                  {"container_memory_limit", s.container_memory_limit},
                  {"container", s.container},
                  {"process_memory_limit", s.process_memory_limit},
                  {"process_memory_limit_name", s.process_memory_limit_name},
                  {"instruction_sets", s.instruction_sets},
                  {"kernels", std::move(kernels)}});
}

std::string gen_json(const Job& job, const std::vector<DataFile>& files, bool reused) {
  Json json = problem_json(job);
  json["data_dir"] = job.data_dir.string();
  json["files"] = Json::array();
  for (const DataFile& file : files) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  json["reused"] = reused;
  json["version"] = version();
  return text_of(json);
}

std::string run_json(const Job& job, const Prepared& prepared, const Timing& timing,
                     const Verification& verification, const std::vector<std::int64_t>& different) {
  Json json = job_json(job, prepared);
  json["iterations"] = job.iterations;
  json["run_ms"] = timing_json(timing);
  json["verified"] =
      std::all_of(different.begin(), different.end(), [](std::int64_t d) { return d == 0; });
  json["verified_against"] = verification.against;
  json["verification"] = {{"whole", verification.whole},
                          {"rows", verification.whole ? job.m : verification.rows},
                          {"columns", verification.whole ? job.n : verification.columns},
                          {"every_element", verification.every_element}};
  json["different"] = different;
  json["infinite"] = verification.infinite;
  json["window_bytes"] = prepared.window_bytes;
  json["data_dir"] = job.data_dir.empty() ? Json() : Json(job.data_dir.string());
  json["version"] = version();
  return text_of(json);
}

std::string bench_json(const Job& job, const Measurement& m, double peak_rss_mib) {
  Json json = job_json(job, {.kernel = m.kernel,
                             .chunks_per_source = m.chunks_per_source,
                             .tile_m = m.tile_m,
                             .tile_k = m.tile_k});
  json["iterations"] = m.iterations;
  json["warmup"] = job.warmup;
  json["compute_only_ms"] = timing_json(m.compute_only_ms);
  json["comm_only_ms"] = timing_json(m.comm_only_ms);
  json["sequential_ms"] = timing_json(m.sequential_ms);
  json["pipelined_ms"] = timing_json(m.pipelined_ms);
  json["speedup"] = m.speedup;
  json["overlap_efficiency"] = m.overlap_efficiency;
  json["pipelined_over_max"] = m.pipelined_over_max;
  json["exposed_comm_ms"] = m.exposed_comm_ms;
  json["comm_cpu_ms"] = m.comm_cpu_ms;
  json["gflops_per_rank"] = m.gflops_per_rank;
  if (job.op->s8_weights) {
    json["mask_ratio"] = m.overlap_efficiency;
    json["gops_per_rank"] = m.gflops_per_rank;
  }
  json["verified"] = m.verified;
  json["verified_rows"] = m.verified_rows;
  if (!m.verified) json["mismatch"] = m.mismatch;
  json["window_bytes"] = m.window_bytes;
  json["peak_rss_mib"] = peak_rss_mib;
  json["version"] = version();
  return text_of(json);
}

std::string bench_list_json(const Job& job, const BenchTable& table, const std::vector<Spread>& all,
                            const std::vector<std::string>& skipped) {
  Json json = {{"op", job.op->name}, {"ranks", job.ranks}, {"skipped", skipped}};
  for (const Spread& s : all) {
    Json& spread = json["distribution"][s.key] = {{"shapes", s.shapes}};
    if (s.shapes == 0) continue;
    spread.update({{"min", s.min},
                   {"p10", s.p10},
                   {"median", s.median},
                   {"p90", s.p90},
                   {"max", s.max},
                   {"worst", Json::array()}});
    for (const Spread::Worst& w : s.worst) {
      spread["worst"].push_back(
          {{"m", w.shape.m}, {"k", w.shape.k}, {"n", w.shape.n}, {"value", w.value}});
    }
  }
  json["shapes"] = Json::array();
  for (const BenchRow& row : table.rows()) {
    Json& entry = json["shapes"].emplace_back(Json::object());
    for (std::size_t i = 0; i < row.fields().size(); ++i) {
      const std::string& text = row.fields()[i];
      // Numbers and truth values are themselves, all else is text.
      const Json value = Json::parse(text, nullptr, false);
      const bool plain = value.is_number() || value.is_boolean();
      entry[BenchTable::columns()[i]] = plain ? value : Json(text);
    }
  }
  json["version"] = version();
  return text_of(json);
}

std::string check_json(const CheckOptions& o, const Comparison& c) {
  Json json = {{"output", o.output}, {"golden", o.golden},     {"type", o.type},
               {"equal", c.equal()}, {"elements", c.elements}, {"different", c.different}};
  if (!c.equal()) {
    json["first_row"] = c.first_row;
    json["first_col"] = c.first_col;
    json["first_got"] = c.first_got;
    json["first_expected"] = c.first_expected;
    json["max_abs_difference"] = c.max_abs_difference;
  }
  return text_of(json);
}

std::string plan_json(const PlanReport& report) {
  const PlanMachine& machine = report.machine;
  Json points = Json::array();
  for (const auto& [shape, plan] : report.points) {
    points.push_back({{"ranks", shape.ranks},
                      {"machines", plan.machines},
                      {"rows_per_rank", shape.rows},
                      {"k", shape.k},
                      {"n", shape.n},
                      {"compute_ms", plan.compute_ms},
                      {"comm_ms", plan.comm_ms},
                      {"sequential_ms", plan.sequential_ms},
                      {"fused_ms", plan.fused_ms},
                      {"speedup", plan.speedup},
                      {"overlap_efficiency", plan.overlap_efficiency},
                      {"pipelined_over_max", plan.pipelined_over_max},
                      {"exposed_comm_ms", plan.exposed_comm_ms},
                      {"bound", name(plan.bound)},
                      {"compute_bound_from_n", plan.compute_bound_from_n},
                      {"compute_bound_from_bandwidth", plan.compute_bound_from_bandwidth},
                      {"wire_bytes_per_machine", plan.wire_bytes},
                      {"chunks_per_source", plan.chunks_per_source},
                      {"chunk_rows", plan.chunk_rows},
                      {"chunk_bytes", plan.chunk_bytes},
                      {"tile_m", plan.tile_m},
                      {"tile_k", plan.tile_k},
                      {"transfer", name(plan.transfer)},
                      {"once_per_machine", plan.once_per_machine}});
  }
  return text_of({{"a_type", report.a_type},
                  {"rank_gflops", machine.rank_flops / 1e9},
                  {"rank_gflops_from", report.rate_source},
                  {"ranks_per_node", machine.ranks_per_node},
                  {"link", to_string(machine.link)},
                  {"wiring", name(machine.wiring)},
                  {"memory_gb_per_second", machine.memory_bytes_per_second / 1e9},
                  {"chunk_cost_us", machine.chunk_seconds * 1e6},
                  {"byte_cost_ns", machine.byte_seconds * 1e9},
                  {"points", std::move(points)},
                  {"explanation", plan_words(report)},
                  {"version", version()}});
}

std::string error_json(const Outcome& outcome) {
  return text_of(
      {{"error",
        {{"code", outcome.kind}, {"message", outcome.message}, {"exit_code", outcome.exit_code}}}});
}

}  // namespace tandem::tool
