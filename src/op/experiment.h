// SPDX-License-Identifier: Apache-2.0
//
// Experiment: one rank's matrices and operator for a measurement, one class per operator.
// measure.cc times the parts; what a part does, and whether its result is right, is answered here.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "platform/page_buffer.h"
#include "tandem/measure.h"
#include "tandem/reference.h"

namespace tandem::op {

/// Rows of C that were compared with the reference, and what was found.
struct Verification {
  std::int64_t rows = 0;
  Comparison comparison;
};

class Experiment {
 public:
  /// For the operator that the spec names; the spec is valid.
  static std::unique_ptr<Experiment> make(const World& world, const MeasureSpec& spec);
  virtual ~Experiment() = default;

  /// For this rank alone: memory, and what is filled into it.
  virtual Status allocate();
  /// Collective: weights, operator, and A where the operator wants it.
  Status prepare();
  /// Collective.
  virtual Status fused() = 0;
  virtual Status gather() = 0;
  /// The multiply over the gathered A of an earlier gather().
  virtual Status multiply() = 0;

  /// Compares C with the reference: all rows, or a sample where that would take long.
  Result<Verification> verify();
  void poison_c();
  virtual void describe(Measurement& out) = 0;

 protected:
  Experiment(const World& world, const MeasureSpec& spec);

  /// Types of A as given, and of A as it travels.
  [[nodiscard]] virtual DType given_type() const { return spec_.a_type; }
  [[nodiscard]] virtual DType travelling_type() const { return spec_.a_type; }
  virtual Status create_operator() = 0;
  /// As the operator's.
  virtual Result<Matrix> acquire_input() = 0;
  /// Before every call: with Workspace::direct A lies in the window, always in the same place, and
  /// stays there; the operator only has to be asked each time.
  Status refresh_input();
  /// The rows of C that belong to these rows of gathered A, by the reference.
  virtual Status reference(const std::vector<std::int64_t>& rows, Matrix c) = 0;
  /// Operations that a second of the reference does.
  [[nodiscard]] virtual double reference_rate() const = 0;

  [[nodiscard]] Matrix c() { return dense(c_memory_.data(), spec_.c_type, m_, spec_.n); }
  [[nodiscard]] Matrix a();
  [[nodiscard]] Matrix gathered() {
    return dense(gathered_memory_.data(), travelling_type(), m_, spec_.k);
  }
  [[nodiscard]] Matrix b();
  [[nodiscard]] StreamOptions options() const;

  const World& world_;
  const MeasureSpec& spec_;
  std::int64_t m_ = 0, own_rows_ = 0, row0_ = 0;

 private:
  platform::PageBuffer a_memory_, b_memory_, c_memory_, gathered_memory_;
  void* place_ = nullptr;  ///< of A in the window, where it lies there
};

}  // namespace tandem::op
