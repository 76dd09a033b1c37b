#include "tests/memory/heap_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> num_allocations{0};

void* counted(std::size_t num_bytes) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* address = std::malloc(num_bytes == 0 ? 1 : num_bytes)) return address;
  throw std::bad_alloc();
}

}  // namespace

// The array and nothrow forms of the library call these two.
void* operator new(std::size_t num_bytes) { return counted(num_bytes); }
void operator delete(void* address) noexcept { std::free(address); }
void operator delete(void* address, std::size_t) noexcept { std::free(address); }

namespace trainer::test {

std::int64_t num_heap_allocations() { return num_allocations.load(std::memory_order_relaxed); }

}  // namespace trainer::test
