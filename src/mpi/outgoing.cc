// SPDX-License-Identifier: Apache-2.0
//
// Outgoing. Start reading at post().
#include "mpi/outgoing.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/guarded.h"

namespace tandem::mpi {
namespace {

/// Messages of notes that MPI may hold at once: bounds its memory, and never reached in practice.
constexpr int kMostMessages = 16;

constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + symm::kNoteAlign - 1) / symm::kNoteAlign * symm::kNoteAlign;
}

/// Appends a note to a message.
void write(std::vector<std::byte>& message, symm::Note note, std::span<const std::byte> text) {
  note.text_bytes = static_cast<std::uint32_t>(text.size());
  const std::size_t at = message.size();
  message.resize(at + sizeof note + padded(text.size()));
  std::memcpy(message.data() + at, &note, sizeof note);
  if (!text.empty()) std::memcpy(message.data() + at + sizeof note, text.data(), text.size());
}

}  // namespace

/// A message of one note, made ahead.
struct Outgoing::LastWords {
  symm::Note note{.kind = symm::NoteKind::lost,
                  .text_bytes = static_cast<std::uint32_t>(sizeof(symm::FailureText))};
  symm::FailureText text{};
  MPI_Request request = MPI_REQUEST_NULL;
};

Outgoing::Outgoing(MPI_Comm comm, int receiver, const MessageSizes& sizes)
    : comm_(comm), receiver_(receiver), sizes_(sizes), last_words_(std::make_unique<LastWords>()) {
  static_assert(offsetof(LastWords, text) == sizeof(symm::Note) &&
                offsetof(LastWords, request) ==
                    sizeof(symm::Note) + padded(sizeof(symm::FailureText)));
}

Outgoing::~Outgoing() {
  // What MPI still reads stays.
  if (last_words_->request != MPI_REQUEST_NULL) (void)last_words_.release();
}

void Outgoing::append(const symm::Note& note, std::span<const std::byte> text) {
  if (messages_.empty() ||
      messages_.back()->bytes.size() + sizeof note + padded(text.size()) > kMessageBytes) {
    messages_.push_back(std::make_shared<Message>());
  }
  write(messages_.back()->bytes, note, text);
}

template <class Append>
void Outgoing::queue(const Append& append) noexcept {
  const std::lock_guard lock(mutex_);
  const Status queued = base::guarded([&] {
    append();
    return Status();
  });
  lost_ = lost_ || !queued.ok();
}

void Outgoing::tell(symm::Note note, std::span<const std::byte> text) noexcept {
  queue([&] { append(note, text); });
}

void Outgoing::ship(const symm::Cargo& cargo, symm::CargoSource source) noexcept {
  queue([&] {
    auto shipment = std::make_shared<Shipment>();
    shipment->cargo = cargo;
    shipment->source = std::move(source);
    shipment->pieces = Pieces(cargo, sizes_.piece);
    append({.kind = symm::NoteKind::cargo, .window = cargo.window}, symm::bytes_of(cargo));
    ++messages_.back()->cargo;
    queued_.push_back(std::move(shipment));
  });
}

Result<bool> Outgoing::post(Requests& requests, symm::Inbox& inbox) {
  bool any = false;
  std::vector<std::shared_ptr<Message>> messages;
  {
    const std::lock_guard lock(mutex_);
    if (lost_) return base::out_of_memory();
    while (!messages_.empty() &&
           messages_under_way_ + static_cast<int>(messages.size()) < kMostMessages) {
      messages.push_back(std::move(messages_.front()));
      messages_.pop_front();
    }
    for (; !queued_.empty(); queued_.pop_front()) shipments_.push_back(std::move(queued_.front()));
  }
  for (std::shared_ptr<Message>& message : messages) {
    announced_ += message->cargo;
    ++messages_under_way_;
    const std::vector<std::byte>& bytes = message->bytes;
    Status sent = requests.send(bytes.data(), static_cast<int>(bytes.size()), receiver_, kNotes,
                                [this, message](int) { --messages_under_way_; });
    if (!sent.ok()) return sent;
    any = true;
  }
  while (announced_ > 0) {
    const std::shared_ptr<Shipment> shipment = shipments_.front();
    if (shipment->pieces.count() == 0) finish(*shipment, inbox);
    for (; shipment->posted < shipment->pieces.count(); ++shipment->posted) {
      const Piece& piece = shipment->pieces[shipment->posted];
      if (bytes_under_way_ > 0 && bytes_under_way_ + piece.total() > sizes_.under_way) return any;
      const symm::CargoSource& source = shipment->source;
      bytes_under_way_ += piece.total();
      Status sent =
          requests.send(piece.rows == 0 ? source.extra_from : source.from, source.from_pitch, piece,
                        receiver_, kCargo, [this, shipment, &inbox, total = piece.total()](int) {
                          bytes_under_way_ -= total;
                          if (++shipment->sent == shipment->pieces.count()) {
                            finish(*shipment, inbox);
                          }
                        });
      if (!sent.ok()) return sent;
      any = true;
    }
    shipments_.pop_front();
    --announced_;
  }
  return any;
}

void Outgoing::break_off(const Status& failure) noexcept {
  {
    const std::lock_guard lock(mutex_);
    messages_.clear();
    queued_.clear();
  }
  shipments_.clear();
  last_words_->text = symm::FailureText::of(failure);
  // What MPI refuses cannot be said.
  (void)MPI_Isend(last_words_.get(), offsetof(LastWords, request), MPI_BYTE, receiver_, kNotes,
                  comm_, &last_words_->request);
}

bool Outgoing::last_words_sent() noexcept {
  int sent = 0;
  const int code = MPI_Test(&last_words_->request, &sent, MPI_STATUS_IGNORE);
  return sent != 0 || code != MPI_SUCCESS;
}

void Outgoing::finish(Shipment& shipment, symm::Inbox& inbox) {
  // Release: pairs with the acquire in RemoteLane::flush(), so that MPI has read the memory before.
  shipment.source.sent->fetch_add(1, std::memory_order_release);
  inbox.sent(shipment.cargo.window);
}

bool Outgoing::idle() {
  const std::lock_guard lock(mutex_);
  return messages_.empty() && queued_.empty() && shipments_.empty() && messages_under_way_ == 0 &&
         bytes_under_way_ == 0;
}

}  // namespace tandem::mpi
