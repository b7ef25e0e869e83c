// SPDX-License-Identifier: Apache-2.0
//
// oneDNN's matmul primitive in f32, f16, bf16 and s8 (s8 × s8 to s32). Weights are reordered once
// into the layout that the primitive asks for, outside the timing. Works with oneDNN 2 and 3. It
// has no call for its number of threads: that of the OpenMP runtime it brought along is set.
#include "bench/peers/peer.h"

#if TANDEM_HAS_DNNL
#include <algorithm>
#include <optional>

#include <dlfcn.h>
#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.hpp>
#include <oneapi/dnnl/dnnl_version.h>

namespace tandem::bench {
namespace {

using Memory = dnnl::memory;
using Dims = Memory::dims;
using SetThreads = void (*)(int);

Memory::data_type dnnl_type(DType type) {
  switch (type) {
    case DType::f16:
      return Memory::data_type::f16;
    case DType::bf16:
      return Memory::data_type::bf16;
    case DType::f32:
      return Memory::data_type::f32;
    case DType::s8:
      return Memory::data_type::s8;
    case DType::s32:
      return Memory::data_type::s32;
  }
  return Memory::data_type::undef;
}

DType result_type(DType type) { return type == DType::s8 ? DType::s32 : DType::f32; }

Memory::desc plain(std::int64_t rows, std::int64_t cols, DType type) {
  return {Dims{rows, cols}, dnnl_type(type), Memory::format_tag::ab};
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, std::int64_t m, std::int64_t k,
                                      std::int64_t n, DType type) {
  const Memory::desc a = plain(m, k, type), c = plain(m, n, result_type(type));
  const Memory::desc b(Dims{k, n}, dnnl_type(type), Memory::format_tag::any);
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c};
#else
  return {dnnl::matmul::desc(a, b, c), engine};
#endif
}

/// oneDNN takes pointers to what it only reads.
void* readable(const void* data) { return const_cast<void*>(data); }

class DnnlPeer final : public Peer {
 public:
  DnnlPeer(DType type, std::string implementation)
      : type_(type), implementation_(std::move(implementation)), stream_(engine_) {}

  std::string name() const override { return "onednn"; }
  std::string detail() const override {
    const dnnl_version_t* v = dnnl::version();
    return fmt::format("oneDNN {}.{}.{}, {}{}", v->major, v->minor, v->patch, implementation_,
                       set_threads_ == nullptr ? ", thread count not ours to set" : "");
  }
  DType type() const override { return type_; }
  bool exact() const override { return false; }
  std::size_t weight_bytes() const override { return weights_.get_desc().get_size(); }
  Matrix result() override {
    return dense(c_.data(), result_type(type_), operands_.a.rows, operands_.b.cols);
  }

  Status prepare(const Operands& operands, int threads) override {
    operands_ = operands;
    threads_ = threads;
    const std::int64_t m = operands.a.rows, k = operands.a.cols, n = operands.b.cols;
    if (Status s = c_.ensure(static_cast<std::size_t>(m * n) * 4); !s.ok()) return s;
    try {
      set_threads();
      const auto description = describe(engine_, m, k, n, type_);
      implementation_ = description.impl_info_str();
      weights_ = Memory(description.weights_desc(), engine_);
      Memory source(plain(k, n, type_), engine_, readable(operands.b.data));
      dnnl::reorder(source, weights_).execute(stream_, source, weights_);
      stream_.wait();
      matmul_ = dnnl::matmul(description);
      a_memory_ = Memory(plain(m, k, type_), engine_, readable(operands.a.data));
      c_memory_ = Memory(plain(m, n, result_type(type_)), engine_, c_.data());
    } catch (const dnnl::error& error) {
      return {StatusCode::kUnsupported, error.what()};
    }
    return {};
  }

  Status run() override {
    set_threads();
    try {
      matmul_.execute(
          stream_,
          {{DNNL_ARG_SRC, a_memory_}, {DNNL_ARG_WEIGHTS, weights_}, {DNNL_ARG_DST, c_memory_}});
      stream_.wait();
    } catch (const dnnl::error& error) {
      return {StatusCode::kInternal, error.what()};
    }
    return {};
  }

 private:
  void set_threads() const {
    if (set_threads_ != nullptr) set_threads_(threads_);
  }

  DType type_;
  std::string implementation_;
  SetThreads set_threads_ =
      reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_;
  Operands operands_;
  int threads_ = 1;
  Buffer c_;
  Memory a_memory_, weights_, c_memory_;
  dnnl::matmul matmul_;
};

/// The name of the implementation that would run at a common shape, or why there is none. The
/// reference implementations take minutes where the others take milliseconds.
Result<std::string> find_implementation(DType type) {
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const std::string found = describe(engine, 64, 1024, 1024, type).impl_info_str();
    if (!found.starts_with("ref")) return found;
    return Status(StatusCode::kUnsupported,
                  fmt::format("oneDNN has only a reference implementation ({}) here", found));
  } catch (const dnnl::error& error) {
    return Status(StatusCode::kUnsupported, fmt::format("oneDNN: {}", error.what()));
  }
}

}  // namespace

void add_dnnl(const PeerOptions& options, PeerList& list) {
  // Has an effect before the first primitive only; a limit that is already tighter stays.
  if (options.avx2_only) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
  for (const DType type : options.types) {
    auto implementation = find_implementation(type);
    if (implementation.ok()) {
      list.peers.push_back(std::make_unique<DnnlPeer>(type, *implementation));
    } else {
      list.absent.push_back(
          {fmt::format("onednn {}", tandem::name(type)), implementation.status().message()});
    }
  }
}

}  // namespace tandem::bench

#else

namespace tandem::bench {

void add_dnnl(const PeerOptions&, PeerList& list) {
  list.absent.push_back({"onednn", "not found when this program was configured"});
}

}  // namespace tandem::bench

#endif  // TANDEM_HAS_DNNL
