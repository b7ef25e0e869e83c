// SPDX-License-Identifier: Apache-2.0
//
// Reads by plain vector loads, as one stream or as several far apart: hardware prefetchers follow
// each, and which number they like best differs between CPUs. Start reading at
// Bandwidth::prepare().
#include "bench/peers/bandwidth.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <iterator>
#include <thread>
#include <vector>

#include "platform/topology.h"

namespace tandem::bench {
namespace {

typedef std::uint64_t Vector __attribute__((vector_size(32)));

volatile std::uint64_t sink;

/// A software prefetch this far ahead covers the latency of memory at some 20 GB/s.
constexpr std::size_t kAhead = 4096;
constexpr std::size_t kLine = 64;

template <std::size_t kStreams, bool kPrefetch>
[[gnu::always_inline]] inline void read_streams(const std::byte* data, std::size_t bytes) {
  const std::size_t each = bytes / kStreams / kLine * kLine;
  Vector sums[2 * kStreams] = {};
  for (std::size_t i = 0; i < each; i += kLine) {
#pragma GCC unroll 4
    for (std::size_t s = 0; s < kStreams; ++s) {
      const std::byte* at = data + s * each + i;
      if (kPrefetch) __builtin_prefetch(at + kAhead);
      sums[2 * s] += *reinterpret_cast<const Vector*>(at);
      sums[2 * s + 1] += *reinterpret_cast<const Vector*>(at + kLine / 2);
    }
  }
  for (std::size_t s = 1; s < 2 * kStreams; ++s) sums[0] += sums[s];
  sink = sums[0][0] + sums[0][1] + sums[0][2] + sums[0][3];
}

#if defined(__x86_64__)
// Every x86-64 that has a kernel here has AVX2; the scalar target reads with what it may.
#define TANDEM_READ_TARGET [[gnu::target("avx2")]]
#else
#define TANDEM_READ_TARGET
#endif

TANDEM_READ_TARGET void read_1(const std::byte* p, std::size_t n) { read_streams<1, false>(p, n); }
TANDEM_READ_TARGET void read_2(const std::byte* p, std::size_t n) { read_streams<2, false>(p, n); }
TANDEM_READ_TARGET void read_4(const std::byte* p, std::size_t n) { read_streams<4, false>(p, n); }
TANDEM_READ_TARGET void fetch_1(const std::byte* p, std::size_t n) { read_streams<1, true>(p, n); }
TANDEM_READ_TARGET void fetch_4(const std::byte* p, std::size_t n) { read_streams<4, true>(p, n); }
#undef TANDEM_READ_TARGET

void read_words(const std::byte* p, std::size_t n) {
  std::uint64_t sum = 0, word = 0;
  for (std::size_t i = 0; i + sizeof(word) <= n; i += sizeof(word)) {
    std::memcpy(&word, p + i, sizeof(word));
    sum += word;
  }
  sink = sum;
}

using Read = void (*)(const std::byte*, std::size_t);
constexpr Read kVectorWays[] = {read_1, read_2, read_4, fetch_1, fetch_4};

bool has_vectors() {
#if defined(__x86_64__)
  return platform::cpu_features().avx2;
#else
  return true;
#endif
}

/// Of this thread: what other processes take must not decide which way is the fastest.
double cpu_seconds() {
  std::timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace

Status Bandwidth::prepare() {
  const auto l3 = static_cast<std::size_t>(platform::cache_sizes().l3);
  const std::size_t bytes = std::max<std::size_t>(std::size_t{256} << 20, 4 * l3);
  if (Status made = memory_.ensure(bytes); !made.ok()) return made;
  std::memset(memory_.data(), 1, bytes);
  way_ = -1;
  if (!has_vectors()) return {};

  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    for (int way = 0; way < static_cast<int>(std::size(kVectorWays)); ++way) {
      const double start = cpu_seconds();
      kVectorWays[way](memory_.data(), bytes);
      const double took = cpu_seconds() - start;
      if (took < best) {
        best = took;
        way_ = way;
      }
    }
  }
  return {};
}

double Bandwidth::read(int threads) const {
  const Read way = way_ < 0 ? read_words : kVectorWays[way_];
  const std::size_t share = memory_.size() / static_cast<std::size_t>(threads) / kLine * kLine;
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) {
    others.emplace_back(way, memory_.data() + static_cast<std::size_t>(t) * share, share);
  }
  way(memory_.data(), share);
  for (std::thread& thread : others) thread.join();
  return static_cast<double>(share) * threads;
}

double Bandwidth::copy() {
  const std::size_t half = memory_.size() / 2;
  std::memcpy(memory_.data() + half, memory_.data(), half);
  sink = static_cast<std::uint64_t>(memory_.data()[half]);
  return static_cast<double>(half);
}

}  // namespace tandem::bench
