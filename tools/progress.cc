// SPDX-License-Identifier: Apache-2.0
//
// Drawing of the progress bar.
#include "progress.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "standard_streams.h"

namespace tandem::tool {
namespace {

constexpr std::size_t kWidest = 40, kNarrowest = 8;  // columns of the bar itself
constexpr double kWorthwhileSeconds = 2;
// An estimate from less than this is a guess.
constexpr double kFirstLookSeconds = 0.4;
constexpr std::chrono::milliseconds kRedraw{100};

/// Whether standard error is a terminal that can draw over a line.
bool can_draw() {
  const char* term = std::getenv("TERM");
  const std::string_view kind = term == nullptr ? "" : term;
  return !kind.empty() && kind != "dumb" && isatty(STDERR_FILENO) == 1;
}

/// Columns that a line may have without moving to the next one. Asked each time: it may change.
std::size_t columns() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return (known ? size.ws_col : 80U) - 1U;
}

/// The bar gives way first, then the label.
std::string line_of(const std::string& label, double fraction, double seconds_left,
                    std::size_t columns) {
  const std::string numbers = fmt::format("{:3.0f}% {:4.0f} s left", fraction * 100, seconds_left);
  const std::size_t around = label.size() + numbers.size() + std::string_view(" [] ").size();
  std::string line = fmt::format("{} {}", label, numbers);
  if (columns >= around + kNarrowest) {
    const std::size_t width = std::min(kWidest, columns - around);
    const auto done = static_cast<std::size_t>(fraction * static_cast<double>(width));
    line = fmt::format("{} [{:-<{}}] {}", label, std::string(done, '#'), width, numbers);
  } else if (line.size() > columns) {
    line = fmt::format("{:.0f}%", fraction * 100);
  }
  return line.substr(0, columns);
}

}  // namespace

Progress::Progress(bool enabled, std::string label)
    : enabled_(enabled && can_draw()), label_(std::move(label)) {}

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
  say(stderr, fmt::format("\r{}\x1b[K",
                          line_of(label_, fraction, std::max(0.0, total - elapsed), columns())));
}

}  // namespace tandem::tool
