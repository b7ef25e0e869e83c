// SPDX-License-Identifier: Apache-2.0
//
// process_id() and signal_name().
#include "platform/process.h"

#include <atomic>
#include <new>

#include <fmt/format.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tandem::platform {

int process_id() {
  // A page that the kernel empties in every child, however it was forked (Linux 4.14).
  static std::atomic<int>* const known = [] {
    const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return static_cast<std::atomic<int>*>(nullptr);
    if (madvise(page, bytes, MADV_WIPEONFORK) == 0) return new (page) std::atomic<int>(0);
    munmap(page, bytes);
    return static_cast<std::atomic<int>*>(nullptr);
  }();
  if (known == nullptr) return getpid();
  // Relaxed: every thread that finds it empty writes the same.
  int id = known->load(std::memory_order_relaxed);
  if (id == 0) {
    id = getpid();
    known->store(id, std::memory_order_relaxed);
  }
  return id;
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

}  // namespace tandem::platform
