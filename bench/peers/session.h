// SPDX-License-Identifier: Apache-2.0
//
// Session: what all sections share: options, peers, the ceilings of the kernel target that runs,
// and the report. main() makes one and hands it to the sections that were asked for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/ceilings.h"
#include "bench/peers/options.h"
#include "bench/peers/peer.h"
#include "bench/peers/report.h"
#include "bench/peers/turns.h"
#include "platform/team.h"

namespace tandem::bench {

/// The ceilings' places in a Turns.
struct CeilingIds {
  int fma = -1;
  int bf16 = -1;  ///< -1: Tandem multiplies bf16 by FMAs, or bf16 was not asked for
  int s8 = -1;    ///< -1: no loop for this CPU, or s8 was not asked for
  [[nodiscard]] int of(DType type) const {
    return type == DType::s8 ? s8 : type == DType::bf16 && bf16 >= 0 ? bf16 : fma;
  }
};

class Session {
 public:
  explicit Session(const Options& options);

  /// Prints and records the machine, the peers and, in a round of their own, the ceilings.
  void introduce();
  /// Adds the ceiling loops, on `threads` threads, to what takes turns.
  CeilingIds add_ceilings(Turns& turns, int threads);
  [[nodiscard]] TurnSettings turn_settings(int threads, double budget_s) const;
  [[nodiscard]] PeerOptions peer_options() const;
  /// Those that --peers asks for.
  [[nodiscard]] PeerList peers() const;

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] Report& report() { return report_; }
  /// Something was wrong: the program must not exit with success.
  void fail(const std::string& why);
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  platform::Team& team(int threads);

  const Options& options_;
  Report report_;
  Isa isa_ = Isa::scalar;
  std::string target_;  ///< kernel target that Tandem runs
  S8Step s8_step_ = S8Step::none;
  bool bf16_pairs_ = false;  ///< Tandem multiplies bf16 by vdpbf16ps
  std::unique_ptr<platform::Team> team_;
  bool failed_ = false;
};

// The sections, each in a file of its own.
void measure_shapes(Session& session);
void measure_floors(Session& session);
void measure_packing(Session& session);
void measure_scaling(Session& session);

}  // namespace tandem::bench
