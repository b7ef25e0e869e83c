// SPDX-License-Identifier: Apache-2.0
//
// The register of partial files and the signal handler that empties it. The handler may only use
// what is async-signal-safe: fixed arrays, atomics, unlink and raise.
#include "partial_files.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>

#include <unistd.h>

namespace tandem::tool {
namespace {

constexpr int kPlaces = 64;  // one for each of as many thread ranks as there can be
constexpr std::size_t kPathBytes = 4096;

enum State : int { kFree, kTaken, kReady };
struct Place {
  std::atomic<int> state{kFree};
  char path[kPathBytes];
};
Place places[kPlaces];
static_assert(std::atomic<int>::is_always_lock_free);

void remove_all_and_die(int signal) {
  for (Place& place : places) {
    // Acquire: pairs with the release in remember_partial_file(), so that the path is whole.
    if (place.state.load(std::memory_order_acquire) == kReady) unlink(place.path);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void install_handlers() {
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    // What is ignored (nohup, a background job) stays ignored.
    if (std::signal(signal, remove_all_and_die) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
  // A file size limit shall be an error of the write, with a message, and not the end.
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace

int remember_partial_file(const std::string& path) {
  static std::once_flag once;
  std::call_once(once, install_handlers);
  if (path.size() >= kPathBytes) return -1;
  for (int i = 0; i < kPlaces; ++i) {
    int expected = kFree;
    // Relaxed: only elects the owner of the place.
    if (!places[i].state.compare_exchange_strong(expected, kTaken, std::memory_order_relaxed)) {
      continue;
    }
    std::memcpy(places[i].path, path.c_str(), path.size() + 1);
    places[i].state.store(kReady, std::memory_order_release);
    return i;
  }
  return -1;
}

void forget_partial_file(int place) {
  // Release: a new owner's path is written after this one was given up.
  if (place >= 0) places[place].state.store(kFree, std::memory_order_release);
}

}  // namespace tandem::tool
