// SPDX-License-Identifier: Apache-2.0
//
// Drawing of the progress bar.
#include "progress.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "standard_streams.h"

namespace tandem::tool {
namespace {

constexpr int kWidth = 40;
constexpr double kWorthwhileSeconds = 2;
// An estimate from less than this is a guess.
constexpr double kFirstLookSeconds = 0.4;
constexpr std::chrono::milliseconds kRedraw{100};

}  // namespace

Progress::Progress(bool enabled, std::string label)
    : enabled_(enabled && isatty(STDERR_FILENO) == 1), label_(std::move(label)) {}

Progress::~Progress() {
  if (visible_) say(stderr, "\r\x1b[K");
}

void Progress::update(double fraction) {
  if (!enabled_) return;
  const auto now = Clock::now();
  if (now - drawn_ < kRedraw) return;
  fraction = std::clamp(fraction, 0.0, 1.0);
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double total = fraction > 0 ? elapsed / fraction : 0;
  if (!visible_ && (elapsed < kFirstLookSeconds || std::max(elapsed, total) < kWorthwhileSeconds)) {
    return;
  }
  drawn_ = now;
  visible_ = true;
  const auto done = static_cast<std::size_t>(fraction * kWidth);
  say(stderr,
      fmt::format("\r{} [{:-<{}}] {:3.0f}% {:4.0f} s left\x1b[K", label_, std::string(done, '#'),
                  kWidth, fraction * 100, std::max(0.0, total - elapsed)));
}

}  // namespace tandem::tool
