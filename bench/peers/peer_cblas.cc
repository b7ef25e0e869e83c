// SPDX-License-Identifier: Apache-2.0
//
// Libraries with a CBLAS interface: OpenBLAS, BLIS, MKL and whatever --cblas names. They all define
// the same symbols, so each is opened at run time with a scope of its own instead of being linked.
// Where a library can pack weights in advance (MKL), it does so outside the timing, as Tandem does.
#include <algorithm>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>
#include <stdlib.h>

#include "bench/peers/peer.h"

namespace tandem::bench {
namespace {

// The values and 32-bit integers of the CBLAS standard's C interface.
constexpr int kRowMajor = 101, kNoTrans = 111;
// Of MKL's packing interface: which operand, and that the operand is a packed one.
constexpr int kPacked = 151, kMatrixB = 162;

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                       float, float*, int);
using SetThreads = void (*)(int);
using GetText = const char* (*)();
using PackSize = std::size_t (*)(int, int, int, int);
using Pack = void (*)(int, int, int, int, int, int, float, const float*, int, float*);
using PackedCompute = void (*)(int, int, int, int, int, int, const float*, int, const float*, int,
                               float, float*, int);

class Library {
 public:
  explicit Library(const std::string& path)
      : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)),
        error_(handle_ == nullptr ? dlerror() : "") {}

  [[nodiscard]] bool open() const { return handle_ != nullptr; }
  [[nodiscard]] const std::string& error() const { return error_; }

  template <class Function>
  [[nodiscard]] Function find(const char* symbol) const {
    return reinterpret_cast<Function>(dlsym(handle_, symbol));
  }

  /// The version and the kernels that the library chose, as far as it tells.
  [[nodiscard]] std::string describe() const;

 private:
  void* handle_;  // never closed: their threads live until the process ends
  std::string error_;
};

std::string Library::describe() const {
  if (const auto config = find<GetText>("openblas_get_config")) {
    const auto core = find<GetText>("openblas_get_corename");
    return fmt::format("{}, core {}", config(), core != nullptr ? core() : "unknown");
  }
  if (const auto version = find<GetText>("bli_info_get_version_str")) {
    const auto id = find<int (*)()>("bli_arch_query_id");
    const auto text = find<const char* (*)(int)>("bli_arch_string");
    return fmt::format("BLIS {}, configuration {}", version(),
                       id != nullptr && text != nullptr ? text(id()) : "unknown");
  }
  if (const auto version = find<void (*)(char*, int)>("mkl_get_version_string")) {
    char text[256] = {};
    version(text, static_cast<int>(sizeof(text)) - 1);
    std::string trimmed(text);
    trimmed.erase(trimmed.find_last_not_of(' ') + 1);
    return trimmed;
  }
  return "version unknown";
}

class CblasPeer final : public Peer {
 public:
  CblasPeer(std::string name, Library library)
      : name_(std::move(name)),
        library_(std::move(library)),
        sgemm_(library_.find<Sgemm>("cblas_sgemm")),
        pack_size_(library_.find<PackSize>("cblas_sgemm_pack_get_size")),
        pack_(library_.find<Pack>("cblas_sgemm_pack")),
        packed_compute_(library_.find<PackedCompute>("cblas_sgemm_compute")) {
    for (const char* symbol :
         {"openblas_set_num_threads", "bli_thread_set_num_threads", "MKL_Set_Num_Threads"}) {
      if (set_threads_ == nullptr) set_threads_ = library_.find<SetThreads>(symbol);
    }
    can_pack_ = pack_size_ != nullptr && pack_ != nullptr && packed_compute_ != nullptr;
  }

  std::string name() const override { return name_; }
  std::string detail() const override {
    return fmt::format("{}{}{}", library_.describe(),
                       can_pack_ ? ", weights packed in advance" : "",
                       set_threads_ == nullptr ? ", thread count not ours to set" : "");
  }
  DType type() const override { return DType::f32; }
  bool exact() const override { return false; }
  std::size_t weight_bytes() const override {
    return static_cast<std::size_t>(operands_.b.rows * operands_.b.cols) * sizeof(float);
  }
  Matrix result() override {
    return dense(c_.data(), DType::f32, operands_.a.rows, operands_.b.cols);
  }

  Status prepare(const Operands& operands, int threads) override {
    operands_ = operands;
    threads_ = threads;
    m_ = static_cast<int>(operands.a.rows);
    k_ = static_cast<int>(operands.a.cols);
    n_ = static_cast<int>(operands.b.cols);
    const auto elements = static_cast<std::size_t>(operands.a.rows * operands.b.cols);
    if (Status made = c_.ensure(elements * sizeof(float)); !made.ok() || !can_pack_) return made;
    if (set_threads_ != nullptr) set_threads_(threads_);
    if (Status made = packed_.ensure(pack_size_(kMatrixB, m_, n_, k_)); !made.ok()) return made;
    pack_(kRowMajor, kMatrixB, kNoTrans, m_, n_, k_, 1.0f, floats(operands.b), n_, packed());
    return {};
  }

  Status run() override {
    if (set_threads_ != nullptr) set_threads_(threads_);
    auto* c = static_cast<float*>(result().data);
    const float* a = floats(operands_.a);
    if (can_pack_) {
      packed_compute_(kRowMajor, kNoTrans, kPacked, m_, n_, k_, a, k_, packed(), n_, 0.0f, c, n_);
    } else {
      sgemm_(kRowMajor, kNoTrans, kNoTrans, m_, n_, k_, 1.0f, a, k_, floats(operands_.b), n_, 0.0f,
             c, n_);
    }
    return {};
  }

 private:
  static const float* floats(const ConstMatrix& m) { return static_cast<const float*>(m.data); }
  float* packed() { return reinterpret_cast<float*>(packed_.data()); }

  std::string name_;
  Library library_;
  Sgemm sgemm_;
  SetThreads set_threads_ = nullptr;
  PackSize pack_size_;
  Pack pack_;
  PackedCompute packed_compute_;
  bool can_pack_ = false;
  Operands operands_;
  int threads_ = 1, m_ = 0, k_ = 0, n_ = 0;
  Buffer c_, packed_;
};

void add_library(const std::string& name, const std::string& path, PeerList& list) {
  if (path.empty()) {
    list.absent.push_back({name, "not found when this program was configured"});
    return;
  }
  Library library(path);
  if (!library.open()) {
    list.absent.push_back({name, library.error()});
  } else if (library.find<Sgemm>("cblas_sgemm") == nullptr) {
    list.absent.push_back({name, fmt::format("{} has no cblas_sgemm", path)});
  } else {
    list.peers.push_back(std::make_unique<CblasPeer>(name, library));
  }
}

}  // namespace

void add_cblas(const PeerOptions& options, PeerList& list) {
  if (std::ranges::find(options.types, DType::f32) == options.types.end()) return;
  if (options.avx2_only) {
    // Read when a library is opened. A setting of the user's stays, and shows in the description.
    // BLIS is left to choose: its numbers of architectures differ between versions, and it aborts
    // on one that it does not know.
    setenv("OPENBLAS_CORETYPE", "Haswell", /*overwrite=*/0);
    setenv("MKL_ENABLE_INSTRUCTIONS", "AVX2", /*overwrite=*/0);
  }
  add_library("openblas", TANDEM_OPENBLAS_PATH, list);
  add_library("blis", TANDEM_BLIS_PATH, list);
  add_library("mkl", TANDEM_MKL_PATH, list);
  for (const std::string& entry : options.libraries) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos) {
      list.absent.push_back({entry, "give NAME=PATH"});
    } else {
      add_library(entry.substr(0, equals), entry.substr(equals + 1), list);
    }
  }
}

}  // namespace tandem::bench
