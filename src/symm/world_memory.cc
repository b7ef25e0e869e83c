// SPDX-License-Identifier: Apache-2.0
//
// Creation and adoption of a world's memory file.
#include "symm/world_memory.h"

#include <new>

#include <fmt/format.h>

#include "platform/memory.h"

namespace tandem::symm {

std::size_t WorldMemory::control_bytes() {
  const std::size_t page = platform::page_size();
  return (sizeof(ControlBlock) + page - 1) / page * page;
}

Result<std::shared_ptr<WorldMemory>> WorldMemory::create(int size, bool locks) {
  std::shared_ptr<WorldMemory> memory(new WorldMemory(locks));
  auto file = platform::SharedFile::create();
  if (!file.ok()) return file.status();
  memory->file_ = std::move(file).value();
  if (Status s = memory->file_.reserve(0, control_bytes()); !s.ok()) return s;
  auto mapping = memory->file_.map(0, control_bytes());
  if (!mapping.ok()) return mapping.status();
  memory->control_ = std::move(mapping).value();
  auto* control = new (memory->control_.data()) ControlBlock;
  control->size = static_cast<std::uint32_t>(size);
  return memory;
}

Result<std::shared_ptr<WorldMemory>> WorldMemory::adopt(int fd, int size) {
  std::shared_ptr<WorldMemory> memory(new WorldMemory(/*locks=*/true));
  auto file = platform::SharedFile::adopt(fd, control_bytes());
  if (!file.ok()) return file.status();
  memory->file_ = std::move(file).value();
  auto mapping = memory->file_.map(0, control_bytes());
  if (!mapping.ok()) return mapping.status();
  memory->control_ = std::move(mapping).value();

  const ControlBlock& control = memory->control();
  if (control.magic != kMagic) {
    return Status(StatusCode::kMismatch,
                  fmt::format("descriptor {} is not the memory file of a world (it begins with "
                              "{:#x}, not {:#x}); start the ranks with `tandem launch`",
                              fd, control.magic, kMagic));
  }
  if (control.version != kLayoutVersion) {
    return Status(
        StatusCode::kMismatch,
        fmt::format("the world has memory layout {}, this library has {}; use one version "
                    "of Tandem for the launcher and all ranks",
                    control.version, kLayoutVersion));
  }
  if (control.size != static_cast<std::uint32_t>(size)) {
    return Status(
        StatusCode::kMismatch,
        fmt::format("this rank was told of {} ranks (TANDEM_SIZE), but the world was made "
                    "for {}; start the ranks with `tandem launch`",
                    size, control.size));
  }
  return memory;
}

Result<std::shared_ptr<const platform::SharedMapping>> WorldMemory::map(std::size_t offset,
                                                                        std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const platform::SharedMapping>& known = ranges_[offset];
  if (auto mapping = known.lock()) return mapping;
  auto made = file_.map(offset, bytes);
  if (!made.ok()) return made.status();
  auto mapping = std::make_shared<const platform::SharedMapping>(std::move(made).value());
  std::erase_if(ranges_,
                [&](const auto& range) { return range.first != offset && range.second.expired(); });
  ranges_[offset] = mapping;
  return mapping;
}

void WorldMemory::ring_all() const {
  for (int r = 0; r < static_cast<int>(control().size); ++r) entry(r).bell.ring();
}

}  // namespace tandem::symm
