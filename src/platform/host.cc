// SPDX-License-Identifier: Apache-2.0
//
// gethostname, getifaddrs, and /proc.
#include "platform/host.h"

#include <charconv>
#include <fstream>
#include <memory>
#include <string_view>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tandem::platform {
namespace {

/// "10.0.0.1"; empty for what is no address that another host could use.
std::string address_text(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (IN6_IS_ADDR_LINKLOCAL(&v6)) return {};
    inet_ntop(AF_INET6, &v6, text, sizeof text);
  }
  return text;
}

/// Of the kernel's text "0b5c…-…": its first 32 hexadecimal digits.
bool read_boot_id(std::array<std::uint64_t, 2>& id) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  if (!std::getline(file, text)) return false;
  std::erase(text, '-');
  if (text.size() < 32) return false;
  for (std::size_t half = 0; half < 2; ++half) {
    const char* const from = text.data() + 16 * half;
    if (std::from_chars(from, from + 16, id[half], 16).ptr != from + 16) return false;
  }
  return true;
}

bool read_namespace(const char* path, std::uint64_t& number) {
  struct stat found {};
  if (stat(path, &found) != 0) return false;
  number = found.st_ino;
  return true;
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "?";
  return name;
}

std::string network_interfaces() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return "none";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  constexpr int kMost = 12;
  std::string all;
  int found = 0;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const std::string address = address_text(entry->ifa_addr);
    if (address.empty() || ++found > kMost) continue;
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", entry->ifa_name, address);
  }
  if (found > kMost) all += fmt::format(" and {} more", found - kMost);
  return all.empty() ? "none" : all;
}

Locality locality() {
  Locality here;
  here.user = geteuid();
  here.known = read_boot_id(here.kernel) && read_namespace("/proc/self/ns/net", here.network) &&
                       read_namespace("/proc/self/ns/user", here.users)
                   ? 1
                   : 0;
  return here;
}

}  // namespace tandem::platform
