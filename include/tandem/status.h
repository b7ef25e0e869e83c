// SPDX-License-Identifier: Apache-2.0
//
// Status and Result: how every fallible call of the library reports. The library never throws,
// prints or aborts; it returns one of these, and the compiler warns when a caller drops it.
// A message names the value that was wrong, the bound it broke and what to do about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "tandem/export.h"

namespace tandem {

enum class StatusCode : std::uint8_t {
  kOk,
  kInvalidArgument,  ///< a value outside its documented bound; nothing was changed
  kMismatch,         ///< two ranks called the same operator with different arguments
  kTimeout,          ///< a wait reached its deadline; the awaited rank was still alive
  kPeerLost,         ///< a rank died or left its world while others needed it
  kOutOfMemory,      ///< memory could not be had, checked before it is touched
  kUnsupported,      ///< this build or this CPU cannot do it
  kIo,               ///< the operating system refused a file, process or mapping
  kInternal,         ///< a broken invariant: a bug in Tandem
};

/// Short lower-case name of a code, for example "timeout".
[[nodiscard]] TANDEM_API std::string_view name(StatusCode code);

/// What a failed wait was waiting for. `rank` is the rank that did not deliver.
struct WaitDetail {
  int rank = -1;               ///< rank that was waited for, -1 when several
  std::uint64_t call = 0;      ///< call number of the operator, counted from 1
  std::int64_t chunk = -1;     ///< chunk of that rank's shard, -1 when not a chunk
  std::uint32_t expected = 0;  ///< counter value that was needed
  std::uint32_t seen = 0;      ///< counter value at the deadline
};

/// Success, or a code and a message for people. Cheap to return when ok.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}
  Status(StatusCode code, std::string message, WaitDetail wait)
      : code_(code), message_(std::move(message)), wait_(wait) {}

  [[nodiscard]] bool ok() const { return code_ == StatusCode::kOk; }
  [[nodiscard]] StatusCode code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }
  /// Set for kTimeout and, where a counter was awaited, kPeerLost.
  [[nodiscard]] const std::optional<WaitDetail>& wait() const { return wait_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
  std::optional<WaitDetail> wait_;
};

/// A value, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  Result(Status error) : content_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const { return content_.index() == 0; }
  /// Ok when there is a value.
  [[nodiscard]] Status status() const { return ok() ? Status() : std::get<1>(content_); }
  /// The value. Precondition: ok().
  [[nodiscard]] T& value() & { return *std::get_if<0>(&content_); }
  [[nodiscard]] const T& value() const& { return *std::get_if<0>(&content_); }
  [[nodiscard]] T&& value() && { return std::move(*std::get_if<0>(&content_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> content_;
};

}  // namespace tandem
