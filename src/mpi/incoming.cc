// SPDX-License-Identifier: Apache-2.0
//
// Incoming. A note is acted on as it is read, except leaving, which takes its place behind the
// cargo that was announced before it.
#include "mpi/incoming.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace tandem::mpi {
namespace {

/// Receives that MPI knows of ahead of the data: more than one sender has under way, so that data
/// finds its place known; few enough that testing them all costs little.
constexpr int kPiecesAhead = 32;
/// Announced and not yet there: more than the places of all rings can hold in chunks. Beyond, a
/// sender announces what it does not send.
constexpr std::size_t kMostItems = std::size_t{1} << 20;

}  // namespace

Status Incoming::post(Requests& requests, symm::Inbox& inbox) {
  if (garbled_) {
    return {
        StatusCode::kInternal,
        fmt::format("rank {} sent what makes no sense here; a bug in Tandem, or two versions of "
                    "it in one job",
                    source_)};
  }
  if (Status s = post_pieces(requests); !s.ok()) return s;
  settle(inbox);
  if (listening_) return {};
  listening_ = true;
  const auto done = [this, &inbox, message = message_](int bytes) {
    listening_ = false;
    if (!read(std::span(message->bytes).first(static_cast<std::size_t>(bytes)), inbox)) {
      garbled_ = true;
    }
  };
  return requests.receive(message_->bytes.data(), static_cast<int>(message_->bytes.size()), source_,
                          kNotes, done);
}

bool Incoming::read(std::span<const std::byte> message, symm::Inbox& inbox) {
  while (!message.empty()) {
    symm::Note note;
    if (message.size() < sizeof note) return false;
    std::memcpy(&note, message.data(), sizeof note);
    message = message.subspan(sizeof note);
    const std::size_t padded =
        (note.text_bytes + symm::kNoteAlign - 1) / symm::kNoteAlign * symm::kNoteAlign;
    if (padded > message.size()) return false;
    const std::span<const std::byte> text = message.first(note.text_bytes);
    message = message.subspan(padded);

    const bool leaves =
        note.kind == symm::NoteKind::left_window || note.kind == symm::NoteKind::left_world;
    // An exchange that stands for the end of all that was under way.
    const bool ends = note.kind == symm::NoteKind::exchange && note.peer != 0;
    const bool waits = (leaves || ends) && !items_.empty();
    if (note.kind != symm::NoteKind::cargo && !waits) {
      if (!inbox.act(source_, note, text)) return false;
      continue;
    }
    auto item = std::make_shared<Item>();
    item->note = note;
    if (waits) {
      item->text.assign(text.begin(), text.end());
    } else {
      if (text.size() != sizeof item->cargo) return false;
      std::memcpy(&item->cargo, text.data(), text.size());
      if (!inbox.accept(source_, item->cargo, item->window)) return false;
      item->pieces = Pieces(item->cargo, piece_bytes_);
    }
    if (items_.size() >= kMostItems) return false;
    items_.push_back(std::move(item));
  }
  return true;
}

Status Incoming::post_pieces(Requests& requests) {
  for (const std::shared_ptr<Item>& item : items_) {
    for (; item->posted < item->pieces.count(); ++item->posted) {
      const Result<bool> posted = post_piece(requests, item, item->pieces[item->posted]);
      if (!posted.ok() || !*posted) return posted.status();
    }
  }
  return {};
}

Result<bool> Incoming::post_piece(Requests& requests, const std::shared_ptr<Item>& item,
                                  const Piece& piece) {
  if (pieces_under_way_ >= kPiecesAhead || (!item->window && sink_taken_)) return false;
  const auto ended = [this, item, expected = piece.total()](int bytes) {
    --pieces_under_way_;
    ++item->received;
    if (static_cast<std::uint64_t>(bytes) != expected) garbled_ = true;
  };
  Status posted;
  if (item->window) {
    const symm::Cargo& cargo = item->cargo;
    std::byte* const to =
        item->window->data(cargo.part) + (piece.rows == 0 ? cargo.extra_to : cargo.to);
    posted = requests.receive(to, cargo.to_pitch, piece, source_, kCargo, ended);
  } else {
    if (!sink_) sink_ = std::make_shared_for_overwrite<std::byte[]>(piece_bytes_);
    sink_taken_ = true;
    const auto refused = [this, ended, sink = sink_](int bytes) {
      sink_taken_ = false;
      ended(bytes);
    };
    posted =
        requests.receive(sink_.get(), static_cast<int>(piece.total()), source_, kCargo, refused);
  }
  if (!posted.ok()) return posted;
  ++pieces_under_way_;
  return true;
}

void Incoming::settle(symm::Inbox& inbox) {
  for (; !items_.empty(); items_.pop_front()) {
    const Item& item = *items_.front();
    if (item.received < item.pieces.count()) return;
    if (item.note.kind != symm::NoteKind::cargo) {
      if (!inbox.act(source_, item.note, item.text)) garbled_ = true;
    } else if (item.window) {
      symm::Inbox::arrived(item.cargo, *item.window);
    }
  }
}

}  // namespace tandem::mpi
