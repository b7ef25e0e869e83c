// SPDX-License-Identifier: Apache-2.0
//
// Report: every figure goes through here, as a line of a table while the measurement runs and as
// an object of the JSON at its end. Sections hand in figures; how they look is decided here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/peers/peer.h"

namespace tandem::bench {

/// One peer at one shape. Rates are in units of 1e9 operations per second.
struct Figure {
  std::string section, peer;
  DType type{};
  Shape shape;
  int threads = 1;
  double rate = 0;
  double to_ceiling = 0;                ///< 0 when there is no ceiling for the type
  std::optional<double> to_tandem;      ///< to Tandem with the same type
  std::optional<double> to_tandem_f16;  ///< of f32 peers: the same numbers, kept in f16
  std::optional<double> of_floor;       ///< time over the larger of two floors, section floors
  double weight_ratio = 0;              ///< bytes of packed weights over bytes of B
  std::string check;
  int rounds = 0;
};

class Report {
 public:
  explicit Report(bool text) : text_(text) {}

  void heading(const std::string& text);
  void line(const std::string& text);
  void figure_header(const std::string& last_ratio);
  void figure(const Figure& figure);
  /// Medians, minima, worst shapes: over the figures of the section "shapes".
  void summary();

  /// "machine", "ceilings" and tables of their own.
  [[nodiscard]] nlohmann::json& json() { return json_; }
  /// Writes the JSON; false when the file cannot be written.
  [[nodiscard]] bool write(const std::string& path);

 private:
  void summarize_ceiling(DType type);
  void summarize_pair(DType type, const std::string& peer, DType peer_type);

  bool text_;
  std::vector<Figure> figures_;
  nlohmann::json json_ = nlohmann::json::object();
};

}  // namespace tandem::bench
