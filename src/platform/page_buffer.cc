// SPDX-License-Identifier: Apache-2.0
//
// PageBuffer over an anonymous private mapping.
#include "platform/page_buffer.h"

#include <cerrno>
#include <cstdint>

#include <fmt/format.h>
#include <string.h>
#include <sys/mman.h>

#include "platform/memory.h"

namespace tandem::platform {
namespace {

// The size of a huge page on x86-64 and on aarch64 with 4 KiB pages.
constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

Result<PageBuffer> PageBuffer::create(std::size_t bytes, bool huge, std::string_view what) {
  PageBuffer buffer;
  if (bytes == 0) return buffer;
  auto promise =
      MemoryPromise::make({.touched = bytes, .mapped = bytes, .is_private = true, .what = what});
  if (!promise.ok()) return promise.status();

  huge = huge && bytes >= kHugePage;
  const std::size_t unit = huge ? kHugePage : page_size();
  const std::size_t size = (bytes + unit - 1) / unit * unit;
  // A huge page needs an aligned address: map one more, give the ends back.
  const std::size_t slack = huge ? kHugePage : 0;
  void* mapped =
      mmap(nullptr, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    return Status(StatusCode::kOutOfMemory,
                  fmt::format("cannot map {} bytes for {}: {}; use smaller shapes, or raise the "
                              "limits that `ulimit -a` and vm.overcommit_memory show",
                              size, what, strerrordesc_np(errno)));
  }
  auto* data = static_cast<std::byte*>(mapped);
  if (huge) {
    const std::size_t past = reinterpret_cast<std::uintptr_t>(data) % kHugePage;
    const std::size_t head = past == 0 ? 0 : kHugePage - past;
    if (head != 0) munmap(data, head);
    if (slack != head) munmap(data + head + size, slack - head);
    data += head;
    // Refusal (no huge pages here) changes speed, not results.
    (void)madvise(data, size, MADV_HUGEPAGE);
  }
  buffer.promise_ = std::move(promise).value();
  buffer.data_ = data;
  buffer.size_ = bytes;
  buffer.mapped_ = size;
  return buffer;
}

Status PageBuffer::touch(std::size_t offset, std::size_t bytes) {
  return promise_.keep_in_steps(
      bytes, [&](std::size_t at, std::size_t step) { return populate(data_ + offset + at, step); });
}

PageBuffer::~PageBuffer() {
  if (data_ != nullptr) munmap(data_, mapped_);
}

}  // namespace tandem::platform
