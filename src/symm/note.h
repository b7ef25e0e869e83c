// SPDX-License-Identifier: Apache-2.0
//
// Note: one thing that a rank says to the ranks of another machine. A note is plain bytes, followed
// by `text_bytes` of text; what each kind does is in inbox.cc, which acts on it as a rank of the
// receiving machine would. Written by World, Window and RemoteLane, carried by a Remote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "symm/failure_text.h"

namespace tandem::symm {

enum class NoteKind : std::uint32_t {
  exchange,     ///< offer of an exchange: text; `number`. Behind the rank's cargo where `peer` is 1
  left_world,   ///< the rank has left
  failure,      ///< of a window, or of the world: text is a FailureText
  put,          ///< text goes to `peer`'s part at `offset`
  notify,       ///< `peer`'s `counter` grows by `number`
  left_window,  ///< the rank will notify no more
  cargo,        ///< a rectangle is on its way: text is a Cargo
  lost,         ///< nothing more comes from the rank: text is the failure of world and windows
  ended,        ///< `peer`, a rank of the same machine as the one that says it, has died
};

struct Note {
  NoteKind kind = NoteKind::notify;
  std::uint32_t text_bytes = 0;
  std::uint64_t window = 0;  ///< where it begins in the world's file; 0 = the world itself
  std::int32_t peer = 0;
  std::int32_t counter = 0;
  std::uint32_t number = 0;
  std::uint32_t spare = 0;  // no padding that would travel uninitialised
  std::uint64_t offset = 0;
};
static_assert(sizeof(Note) == 40);

/// Notes and their texts lie at multiples of this in a message.
inline constexpr std::size_t kNoteAlign = 8;
/// Longest text of a note; longer puts are cut.
inline constexpr std::size_t kMaxText = 2048;

/// A rectangle for another machine, and who is to be told of its arrival there. It lands in the
/// part of `part`: the mirror of a rank that others read from, or the part of a rank itself.
struct Cargo {
  std::uint64_t window = 0;
  std::uint64_t peers = 0;  ///< a bit per rank whose counter grows by one
  std::int32_t part = 0;
  std::int32_t counter = 0;
  std::uint64_t to = 0, to_pitch = 0, row_bytes = 0;  ///< in the part's payload
  std::int64_t rows = 0;
  std::uint64_t extra_to = 0, extra_bytes = 0;  ///< a second, contiguous piece
};

static_assert(sizeof(FailureText) <= kMaxText);

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace tandem::symm
