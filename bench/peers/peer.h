// SPDX-License-Identifier: Apache-2.0
//
// Peer: one library multiplying one element type, which is one row of the tables. Tandem is a peer
// like the others. A new one implements these few functions in a peer_*.cc and is added to
// Session::peers(); shapes_section.cc shows what is then done with it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench/peers/problem.h"
#include "tandem/status.h"

namespace tandem::bench {

class Peer {
 public:
  virtual ~Peer() = default;

  [[nodiscard]] virtual std::string name() const = 0;    ///< "tandem", "openblas", …
  [[nodiscard]] virtual std::string detail() const = 0;  ///< version and kernel that will run
  [[nodiscard]] virtual DType type() const = 0;          ///< of A and B
  /// True when the result must equal the reference bit for bit; else within f32 rounding.
  [[nodiscard]] virtual bool exact() const = 0;

  /// Binds operands and does all that a user would do once per weights, such as packing them. Not
  /// timed. The operands outlive the next call. Errors: what the library cannot do.
  virtual Status prepare(const Operands& operands, int threads) = 0;
  /// One multiply, timed.
  virtual Status run() = 0;
  /// The result of run(): M × N, s32 for s8 and f32 for the others.
  [[nodiscard]] virtual Matrix result() = 0;
  /// Bytes of weights that a multiply has to read.
  [[nodiscard]] virtual std::size_t weight_bytes() const = 0;
};

/// A row that is missing, and why.
struct Absence {
  std::string peer;
  std::string reason;
};

struct PeerList {
  std::vector<std::unique_ptr<Peer>> peers;
  std::vector<Absence> absent;
};

struct PeerOptions {
  std::vector<DType> types;
  std::string kernel = "auto";         ///< Tandem's kernel target
  bool avx2_only = false;              ///< hold the other libraries to AVX2 as well
  std::vector<std::string> libraries;  ///< more CBLAS libraries, each "NAME=PATH"
};

// Each appends the peers of one file, or says why they are absent. Session::peers() calls them.
void add_tandem(const PeerOptions& options, PeerList& list);
void add_cblas(const PeerOptions& options, PeerList& list);
void add_dnnl(const PeerOptions& options, PeerList& list);

}  // namespace tandem::bench
