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
  auto file = platform::SharedFile::create();
  if (!file.ok()) return file.status();
  if (Status s = file->reserve(0, control_bytes()); !s.ok()) return s;
  auto mapping = file->map(0, control_bytes());
  if (!mapping.ok()) return mapping.status();
  auto* control = new (mapping->data()) ControlBlock;
  control->size = static_cast<std::uint32_t>(size);
  return std::shared_ptr<WorldMemory>(
      new WorldMemory(std::move(file).value(), std::move(mapping).value(), size, locks));
}

Result<std::shared_ptr<WorldMemory>> WorldMemory::adopt(int fd, int size) {
  auto file = platform::SharedFile::adopt(fd, control_bytes());
  if (!file.ok()) return file.status();
  auto mapping = file->map(0, control_bytes());
  if (!mapping.ok()) return mapping.status();

  const auto* control = reinterpret_cast<const ControlBlock*>(mapping->data());
  const std::uint64_t magic = control->magic;
  const std::uint32_t version = control->version, made_for = control->size;
  if (magic != kMagic) {
    return Status(StatusCode::kMismatch,
                  fmt::format("descriptor {} is not the memory file of a world (it begins with "
                              "{:#x}, not {:#x}); start the ranks with `tandem launch`",
                              fd, magic, kMagic));
  }
  if (version != kLayoutVersion) {
    return Status(
        StatusCode::kMismatch,
        fmt::format("the world has memory layout {}, this library has {}; use one version "
                    "of Tandem for the launcher and all ranks",
                    version, kLayoutVersion));
  }
  if (made_for != static_cast<std::uint32_t>(size)) {
    return Status(
        StatusCode::kMismatch,
        fmt::format("this rank was told of {} ranks (TANDEM_SIZE), but the world was made "
                    "for {}; start the ranks with `tandem launch`",
                    size, made_for));
  }
  return std::shared_ptr<WorldMemory>(
      new WorldMemory(std::move(file).value(), std::move(mapping).value(), size, /*locks=*/true));
}

Result<bool> WorldMemory::lock_rank(int rank) {
  auto lock = platform::ProcessLock::take(file_.fd(), rank);
  if (!lock.ok()) return lock.status();
  if (!lock->held()) return false;
  lock_ = std::move(lock).value();
  return true;
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
  for (int r = 0; r < size_; ++r) entry(r).bell.ring();
}

}  // namespace tandem::symm
