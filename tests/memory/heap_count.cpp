#include "tests/memory/heap_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> num_allocations{0};

void* counted_or_null(std::size_t num_bytes) noexcept {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(num_bytes == 0 ? 1 : num_bytes);
}

void* counted(std::size_t num_bytes) {
  if (void* address = counted_or_null(num_bytes)) return address;
  throw std::bad_alloc();
}

}  // namespace

// Every form, also those that the standard library maps to the first: a sanitizer brings its own, which would not be
// counted and must not be freed here.
void* operator new(std::size_t num_bytes) { return counted(num_bytes); }
void* operator new[](std::size_t num_bytes) { return counted(num_bytes); }
void* operator new(std::size_t num_bytes, const std::nothrow_t&) noexcept { return counted_or_null(num_bytes); }
void* operator new[](std::size_t num_bytes, const std::nothrow_t&) noexcept { return counted_or_null(num_bytes); }
void operator delete(void* address) noexcept { std::free(address); }
void operator delete[](void* address) noexcept { std::free(address); }
void operator delete(void* address, std::size_t) noexcept { std::free(address); }
void operator delete[](void* address, std::size_t) noexcept { std::free(address); }
void operator delete(void* address, const std::nothrow_t&) noexcept { std::free(address); }
void operator delete[](void* address, const std::nothrow_t&) noexcept { std::free(address); }

namespace trainer::test {

std::int64_t num_heap_allocations() { return num_allocations.load(std::memory_order_relaxed); }

}  // namespace trainer::test
