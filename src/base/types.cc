// SPDX-License-Identifier: Apache-2.0
//
// Spellings of the named choices: one table per type, read in both directions.
#include "tandem/types.h"

#include <array>
#include <utility>

#include "tandem/stream_options.h"

namespace tandem {
namespace {

template <class T, std::size_t n>
using Names = std::array<std::pair<T, std::string_view>, n>;

constexpr Names<DType, 5> kDTypes{{{DType::f16, "f16"},
                                   {DType::bf16, "bf16"},
                                   {DType::f32, "f32"},
                                   {DType::s8, "s8"},
                                   {DType::s32, "s32"}}};
constexpr Names<BLayout, 2> kLayouts{{{BLayout::kn, "kn"}, {BLayout::nk, "nk"}}};
constexpr Names<Workspace, 3> kWorkspaces{
    {{Workspace::full, "full"}, {Workspace::staged, "staged"}, {Workspace::direct, "direct"}}};
constexpr Names<Transfer, 2> kTransfers{{{Transfer::pull, "pull"}, {Transfer::push, "push"}}};

template <class T, std::size_t n>
std::string_view find_name(const Names<T, n>& names, T value) {
  for (const auto& [candidate, text] : names) {
    if (candidate == value) return text;
  }
  return "unknown";
}

template <class T, std::size_t n>
std::optional<T> find_value(const Names<T, n>& names, std::string_view text) {
  for (const auto& [value, candidate] : names) {
    if (candidate == text) return value;
  }
  return std::nullopt;
}

}  // namespace

std::size_t size_of(DType type) {
  switch (type) {
    case DType::s8:
      return 1;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::f32:
    case DType::s32:
      return 4;
  }
  return 0;
}

std::string_view name(DType type) { return find_name(kDTypes, type); }
std::string_view name(BLayout layout) { return find_name(kLayouts, layout); }
std::string_view name(Transfer transfer) { return find_name(kTransfers, transfer); }
std::string_view name(Workspace workspace) { return find_name(kWorkspaces, workspace); }

std::optional<DType> parse_dtype(std::string_view text) { return find_value(kDTypes, text); }
std::optional<BLayout> parse_b_layout(std::string_view text) { return find_value(kLayouts, text); }
std::optional<Transfer> parse_transfer(std::string_view text) {
  return find_value(kTransfers, text);
}

std::optional<Workspace> parse_workspace(std::string_view text) {
  return find_value(kWorkspaces, text);
}

}  // namespace tandem
