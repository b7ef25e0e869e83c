// SPDX-License-Identifier: Apache-2.0
//
// Makes the operands. Start reading at Problem::make().
#include "bench/peers/problem.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "base/element.h"
#include "tandem/reference.h"

namespace tandem::bench {
namespace {

constexpr std::uint64_t kSeedA = 1, kSeedB = 2;

/// splitmix64 (Steele, Lea and Flood, 2014), eight values a step.
void fill_s8(std::byte* to, std::size_t count, std::uint64_t seed) {
  std::uint64_t state = seed;
  for (std::size_t i = 0; i < count; i += 8) {
    state += 0x9e3779b97f4a7c15u;
    std::uint64_t x = state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    std::memcpy(to + i, &x, std::min<std::size_t>(8, count - i));
  }
}

void widen(const std::byte* from, std::byte* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float value = base::load_element(DType::f16, from + 2 * i);
    base::store_element(DType::f32, value, to + 4 * i);
  }
}

}  // namespace

std::string Shape::text() const { return fmt::format("{}x{}x{}", m, k, n); }

std::optional<Shape> parse_shape(const std::string& text) {
  long long m = 0, k = 0, n = 0;
  int used = 0;
  const int fields = std::sscanf(text.c_str(), "%lldx%lldx%lld%n", &m, &k, &n, &used);
  if (fields != 3 || used != static_cast<int>(text.size()) || std::min({m, k, n}) < 1) return {};
  return Shape{.m = m, .k = k, .n = n, .full_m = m};
}

Status Buffer::ensure(std::size_t bytes) {
  if (bytes <= memory_.size()) return {};
  memory_ = {};
  auto made = platform::PageBuffer::create(bytes, /*huge=*/true, "a matrix");
  if (!made.ok()) return made.status();
  memory_ = std::move(made).value();
  return memory_.touch();
}

Operands Problem::operands(DType type) const {
  const Pair& p = pairs_[static_cast<std::size_t>(type)];
  return {dense(static_cast<const void*>(p.a.data()), type, shape_.m, shape_.k),
          dense(static_cast<const void*>(p.b.data()), type, shape_.k, shape_.n)};
}

Status Problem::make(const Shape& shape, std::span<const DType> types) {
  shape_ = shape;
  const auto asked = [&](DType type) { return std::ranges::find(types, type) != types.end(); };
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::s8}) {
    if (!asked(type) && !(type == DType::f16 && asked(DType::f32))) continue;
    if (Status made = make_type(type); !made.ok()) return made;
  }
  return {};
}

Status Problem::make_type(DType type) {
  const auto a_count = static_cast<std::size_t>(shape_.m * shape_.k);
  const auto b_count = static_cast<std::size_t>(shape_.k * shape_.n);
  Pair& to = pair(type);
  if (Status made = to.a.ensure(a_count * size_of(type)); !made.ok()) return made;
  if (Status made = to.b.ensure(b_count * size_of(type)); !made.ok()) return made;
  if (type == DType::s8) {
    fill_s8(to.a.data(), a_count, kSeedA);
    fill_s8(to.b.data(), b_count, kSeedB);
  } else if (type == DType::f32) {
    widen(pair(DType::f16).a.data(), to.a.data(), a_count);
    widen(pair(DType::f16).b.data(), to.b.data(), b_count);
  } else {
    fill_random(dense(to.a.data(), type, shape_.m, shape_.k), kSeedA);
    fill_random(dense(to.b.data(), type, shape_.k, shape_.n), kSeedB);
  }
  return {};
}

}  // namespace tandem::bench
