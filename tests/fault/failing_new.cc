// SPDX-License-Identifier: Apache-2.0
//
// The replaced operators, all of them. All end in allocate(), and that in malloc: sanitizers see
// it.
#include "tests/fault/failing_new.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

#include <execinfo.h>

namespace tandem::testing_fault {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
// All relaxed: they are set while nobody else allocates, and the count orders nothing.
std::atomic<bool> counting{false};
std::atomic<std::uint64_t> counted{0}, first{kNever}, last{0};
thread_local int spared = 0;

constexpr int kMostFrames = 48;
void* stack[kMostFrames];
std::atomic<int> frames{0};

bool refused() {
  if (!counting.load(std::memory_order_relaxed) || spared > 0) return false;
  const std::uint64_t number = counted.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number < first.load(std::memory_order_relaxed)) return false;
  if (number > last.load(std::memory_order_relaxed)) return false;
  if (number == first.load(std::memory_order_relaxed)) {
    const Spared own;
    frames.store(backtrace(stack, kMostFrames), std::memory_order_relaxed);
  }
  return true;
}

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  if (refused()) return nullptr;
  size = std::max<std::size_t>(size, 1);
  if (alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) return std::malloc(size);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* memory = allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void fail_allocation(std::uint64_t number, Failing how) {
  void* here[1];
  backtrace(here, 1);  // loads its library now: later it must not allocate
  counted.store(0, std::memory_order_relaxed);
  first.store(number == 0 ? kNever : number, std::memory_order_relaxed);
  last.store(how == Failing::once ? number : kNever, std::memory_order_relaxed);
  counting.store(true, std::memory_order_relaxed);
}

std::uint64_t stop_failing() {
  counting.store(false, std::memory_order_relaxed);
  return counted.load(std::memory_order_relaxed);
}

void write_stack_of_failure(int fd) {
  backtrace_symbols_fd(stack, frames.load(std::memory_order_relaxed), fd);
}

Spared::Spared() { ++spared; }
Spared::~Spared() { --spared; }

}  // namespace tandem::testing_fault

using tandem::testing_fault::allocate;
using tandem::testing_fault::allocate_or_throw;

void* operator new(std::size_t size) { return allocate_or_throw(size, 0); }
void* operator new[](std::size_t size) { return allocate_or_throw(size, 0); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0); }
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
