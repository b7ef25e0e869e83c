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

}  // namespace

Status Incoming::post(Requests& requests, symm::Inbox& inbox) {
  if (garbled_) {
    return {
        StatusCode::kInternal,
        fmt::format("rank {} sent what makes no sense here; a bug in Tandem, or two versions of "
                    "it in one job",
                    source_)};
  }
  if (Status s = post_pieces(requests, inbox); !s.ok()) return s;
  settle(inbox);
  if (listening_) return {};
  listening_ = true;
  return requests.receive(message_.data(), static_cast<int>(message_.size()), source_, kNotes,
                          [this, &inbox](int bytes) {
                            listening_ = false;
                            const auto length = static_cast<std::size_t>(bytes);
                            if (!read({message_.data(), length}, inbox)) garbled_ = true;
                          });
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
    if (note.kind != symm::NoteKind::cargo && !(leaves && !items_.empty())) {
      if (!inbox.act(source_, note, text)) return false;
      continue;
    }
    auto item = std::make_shared<Item>();
    item->note = note;
    if (!leaves) {
      if (text.size() != sizeof item->cargo) return false;
      std::memcpy(&item->cargo, text.data(), text.size());
      item->pieces = cut(item->cargo, piece_bytes_);
      item->wanted = inbox.fits(item->cargo);
    }
    items_.push_back(std::move(item));
  }
  return true;
}

Status Incoming::post_pieces(Requests& requests, symm::Inbox& inbox) {
  for (const std::shared_ptr<Item>& item : items_) {
    for (; item->posted < item->pieces.size(); ++item->posted) {
      if (pieces_under_way_ >= kPiecesAhead) return {};
      const Piece& piece = item->pieces[item->posted];
      const symm::Cargo& cargo = item->cargo;
      const auto done = [this, item](int) {
        --pieces_under_way_;
        ++item->received;
      };
      Status posted;
      if (item->wanted) {
        const std::uint64_t at = piece.rows == 0 ? cargo.extra_to : cargo.to;
        posted =
            requests.receive(inbox.place(cargo, at), cargo.to_pitch, piece, source_, kCargo, done);
      } else {
        // Pieces of one shipment may share this: nobody reads it.
        item->refuse.resize(std::max<std::size_t>(item->refuse.size(), piece.total()));
        posted = requests.receive(item->refuse.data(), static_cast<int>(piece.total()), source_,
                                  kCargo, done);
      }
      if (!posted.ok()) return posted;
      ++pieces_under_way_;
    }
  }
  return {};
}

void Incoming::settle(symm::Inbox& inbox) {
  for (; !items_.empty(); items_.pop_front()) {
    const Item& item = *items_.front();
    if (item.received < item.pieces.size()) return;
    if (item.note.kind != symm::NoteKind::cargo) {
      (void)inbox.act(source_, item.note, {});
    } else if (item.wanted) {
      inbox.arrived(item.cargo);
    }
  }
}

}  // namespace tandem::mpi
