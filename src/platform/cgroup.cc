// SPDX-License-Identifier: Apache-2.0
//
// Finds the folders of this process's control groups (group_folders() is the place to start) and
// reads limits from them.
#include "platform/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

namespace tandem::platform {
namespace {

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;  // "max", for one
  return value;
}

std::optional<std::int64_t> number_in(const std::string& path) {
  const auto line = first_line(path);
  return line ? number(*line) : std::nullopt;
}

/// The value behind `key` in a "key value" file such as memory.stat.
std::int64_t keyed_number(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string name;
  std::int64_t value = 0;
  while (file >> name >> value) {
    if (name == key) return value;
  }
  return 0;
}

bool lists(std::string_view comma_list, std::string_view item) {
  while (!comma_list.empty()) {
    const std::size_t comma = comma_list.find(',');
    if (comma_list.substr(0, comma) == item) return true;
    if (comma == std::string_view::npos) return false;
    comma_list.remove_prefix(comma + 1);
  }
  return false;
}

struct Mount {
  std::string root;   // which group of the whole tree is mounted …
  std::string point;  // … at which folder
};

/// mountinfo writes blanks and backslashes in names as "\040".
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, code, 8).ec == std::errc()) {
      plain += static_cast<char>(code);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

/// Where the hierarchy of `controller` is mounted; v2 has one hierarchy and an empty controller.
std::optional<Mount> find_mount(const std::string& root, std::string_view controller) {
  std::ifstream file(root + "/proc/self/mountinfo");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string skip, type, source, options;
    Mount mount;
    fields >> skip >> skip >> skip >> mount.root >> mount.point;
    while (fields >> skip && skip != "-") {
    }
    fields >> type >> source >> options;
    if (controller.empty() ? type == "cgroup2" : type == "cgroup" && lists(options, controller)) {
      return Mount{unescaped(mount.root), unescaped(mount.point)};
    }
  }
  return std::nullopt;
}

/// This process's group in that hierarchy, as /proc names it.
std::optional<std::string> find_group(const std::string& root, std::string_view controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {  // "4:memory:/path", v2: "0::/path"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view names = std::string_view(line).substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : lists(names, controller)) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

/// The part of `group` below the group that is mounted, empty when it is that or lies elsewhere
/// (a process moved out of its container's part, "/..": the mount is then all that can be seen).
std::string below_mount(std::string group, const std::string& mounted) {
  if (mounted != "/") {
    const bool inside = group.starts_with(mounted) &&
                        (group.size() == mounted.size() || group[mounted.size()] == '/');
    group = inside ? group.substr(mounted.size()) : "";
  }
  return group == "/" || group.starts_with("/..") ? "" : group;
}

/// Folders of this process's group and of all groups above it, innermost first.
std::vector<std::string> group_folders(const std::string& root, std::string_view controller) {
  const auto mount = find_mount(root, controller);
  const auto group = find_group(root, controller);
  if (!mount || !group) return {};
  std::vector<std::string> folders;
  for (std::string at = below_mount(*group, mount->root); !at.empty(); at.erase(at.rfind('/'))) {
    folders.push_back(mount->point + at);
  }
  folders.push_back(mount->point);
  return folders;
}

}  // namespace

std::vector<MemoryGroup> memory_groups(const std::string& root) {
  // v1 writes "no limit" as a huge number; nothing real comes near 2^60 bytes.
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;
  std::vector<MemoryGroup> groups;
  const auto add = [&](const std::string& folder, const char* limit_file, const char* used_file,
                       std::string_view cache) {
    const std::string at = root + folder;
    const auto limit = number_in(at + limit_file);
    if (!limit || *limit >= kNoLimit) return;
    const std::int64_t used = number_in(at + used_file).value_or(0);
    const std::int64_t cached = keyed_number(at + "/memory.stat", cache);
    groups.push_back({folder, *limit, std::max<std::int64_t>(0, used - cached)});
  };
  for (const std::string& folder : group_folders(root, "")) {
    add(folder, "/memory.max", "/memory.current", "inactive_file");
  }
  for (const std::string& folder : group_folders(root, "memory")) {
    add(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file");
  }
  return groups;
}

double cpu_quota(const std::string& root) {
  double least = 0;
  const auto add = [&](std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
    if (!quota || !period || *quota <= 0 || *period <= 0) return;
    const double cores = static_cast<double>(*quota) / static_cast<double>(*period);
    if (least == 0 || cores < least) least = cores;
  };
  for (const std::string& folder : group_folders(root, "")) {
    // "150000 100000", or "max 100000"
    const std::string line = first_line(root + folder + "/cpu.max").value_or("");
    const std::size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    add(number(line), number(std::string_view(line).substr(space + 1)));
  }
  for (const std::string& folder : group_folders(root, "cpu")) {
    add(number_in(root + folder + "/cpu.cfs_quota_us"),
        number_in(root + folder + "/cpu.cfs_period_us"));
  }
  return least;
}

}  // namespace tandem::platform
