#include "engine/memory/host_source.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "engine/bytes.h"
#include "engine/errors.h"

namespace trainer {

namespace {

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

constexpr int usable = PROT_READ | PROT_WRITE;
constexpr int own_memory = MAP_PRIVATE | MAP_ANONYMOUS;
/// Addresses alone: the kernel sets no memory aside for them.
constexpr int addresses_alone = own_memory | MAP_NORESERVE;

/// nullptr where the kernel has no more.
void* map_pages(void* address, std::size_t num_bytes, int protection, int flags) {
  void* mapped = mmap(address, num_bytes, protection, flags, -1, 0);
  if (mapped != MAP_FAILED) return mapped;
  if (errno == ENOMEM || errno == EAGAIN) return nullptr;
  throw DeviceError(std::string("the system refused to map memory: ") + std::strerror(errno));
}

/// Maps 2 MiB more than wanted and unmaps what lies before and behind the aligned part.
void* map_aligned(std::size_t num_bytes, int protection, int flags) {
  // In whole pages: only these can be unmapped.
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t kept = (num_bytes + page_bytes - 1) / page_bytes * page_bytes;
  void* mapped = map_pages(nullptr, kept + huge_page_bytes, protection, flags);
  if (mapped == nullptr) return nullptr;
  const std::size_t before =
      (huge_page_bytes - reinterpret_cast<std::uintptr_t>(mapped) % huge_page_bytes) % huge_page_bytes;
  char* aligned = static_cast<char*>(mapped) + before;
  if (before > 0) munmap(mapped, before);
  if (before < huge_page_bytes) munmap(aligned + kept, huge_page_bytes - before);
  return aligned;
}

/// Only advice: without huge pages everything works, more slowly.
void advise_huge_pages(void* address, std::size_t num_bytes) { madvise(address, num_bytes, MADV_HUGEPAGE); }

}  // namespace

HostSource::HostSource(std::int64_t capacity) : capacity_(capacity) {
  require_internal(capacity >= 0, "a capacity is not negative");
}

void* HostSource::acquire(std::int64_t num_bytes) {
  require_internal(num_bytes > 0, "a segment has at least one byte");
  if (num_bytes > capacity_ - held_) return nullptr;
  const auto size = static_cast<std::size_t>(num_bytes);
  const bool large = size >= huge_page_bytes;
  void* address = large ? map_aligned(size, usable, own_memory) : map_pages(nullptr, size, usable, own_memory);
  if (address == nullptr) return nullptr;
  if (large) advise_huge_pages(address, size);
  held_ += num_bytes;
  return address;
}

void HostSource::release(void* address, std::int64_t num_bytes) noexcept {
  munmap(address, static_cast<std::size_t>(num_bytes));
  held_ -= num_bytes;
}

std::int64_t HostSource::granule_bytes() const { return static_cast<std::int64_t>(huge_page_bytes); }

void* HostSource::reserve_range(std::int64_t num_bytes) {
  require_internal(num_bytes > 0, "a range has at least one byte");
  void* address = map_aligned(static_cast<std::size_t>(num_bytes), PROT_NONE, addresses_alone);
  if (address == nullptr)
    throw DeviceError("the system refused a range of addresses for memory.expandable_segments: " +
                      format_bytes(num_bytes));
  return address;
}

void HostSource::release_range(void* address, std::int64_t num_bytes) noexcept {
  munmap(address, static_cast<std::size_t>(num_bytes));
}

bool HostSource::map(void* address, std::int64_t num_bytes) {
  require_internal(num_bytes > 0 && num_bytes % granule_bytes() == 0, "whole granules are mapped");
  if (num_bytes > capacity_ - held_) return false;
  const auto size = static_cast<std::size_t>(num_bytes);
  if (map_pages(address, size, usable, own_memory | MAP_FIXED) == nullptr) return false;
  advise_huge_pages(address, size);
  held_ += num_bytes;
  return true;
}

void HostSource::unmap(void* address, std::int64_t num_bytes) noexcept {
  const auto size = static_cast<std::size_t>(num_bytes);
  // Refused only where the kernel cannot divide its mappings any further; the memory at least is given back.
  if (mmap(address, size, PROT_NONE, addresses_alone | MAP_FIXED, -1, 0) == MAP_FAILED)
    madvise(address, size, MADV_DONTNEED);
  held_ -= num_bytes;
}

}  // namespace trainer
