#include "engine/memory/host_source.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "engine/errors.h"

namespace trainer {

namespace {

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

void* map_pages(std::size_t num_bytes) {
  void* address = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address != MAP_FAILED) return address;
  if (errno == ENOMEM || errno == EAGAIN) return nullptr;
  throw DeviceError(std::string("the system refused to map memory: ") + std::strerror(errno));
}

/// Maps 2 MiB more than wanted and unmaps what lies before and behind the aligned part.
void* map_aligned(std::size_t num_bytes) {
  // In whole pages: only these can be unmapped.
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t kept = (num_bytes + page_bytes - 1) / page_bytes * page_bytes;
  void* mapped = map_pages(kept + huge_page_bytes);
  if (mapped == nullptr) return nullptr;
  const std::size_t before =
      (huge_page_bytes - reinterpret_cast<std::uintptr_t>(mapped) % huge_page_bytes) % huge_page_bytes;
  char* aligned = static_cast<char*>(mapped) + before;
  if (before > 0) munmap(mapped, before);
  if (before < huge_page_bytes) munmap(aligned + kept, huge_page_bytes - before);
  // Only advice: without huge pages everything works, more slowly.
  madvise(aligned, kept, MADV_HUGEPAGE);
  return aligned;
}

}  // namespace

HostSource::HostSource(std::int64_t capacity) : capacity_(capacity) {
  require_internal(capacity >= 0, "a capacity is not negative");
}

void* HostSource::acquire(std::int64_t num_bytes) {
  require_internal(num_bytes > 0, "a segment has at least one byte");
  if (num_bytes > capacity_ - held_) return nullptr;
  const auto size = static_cast<std::size_t>(num_bytes);
  void* address = size >= huge_page_bytes ? map_aligned(size) : map_pages(size);
  if (address != nullptr) held_ += num_bytes;
  return address;
}

void HostSource::release(void* address, std::int64_t num_bytes) noexcept {
  munmap(address, static_cast<std::size_t>(num_bytes));
  held_ -= num_bytes;
}

}  // namespace trainer
