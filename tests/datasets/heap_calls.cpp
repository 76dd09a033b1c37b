#include "tests/datasets/heap_calls.h"

#include <atomic>
#include <cstdlib>

#ifdef TRAINER_COUNT_HEAP_CALLS

namespace {
std::atomic<bool> heap_is_counted{false};
std::atomic<std::int64_t> num_heap_calls{0};

void count_heap_call() {
  if (heap_is_counted.load(std::memory_order_relaxed)) ++num_heap_calls;
}
}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

// These stand before the C library's for the whole process, the decoders' libraries included.
void* malloc(std::size_t size) {
  count_heap_call();
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  count_heap_call();
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
  count_heap_call();
  return __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  count_heap_call();
  return __libc_memalign(alignment, size);
}
}

std::int64_t trainer::heap_calls_of(const std::function<void()>& body) {
  num_heap_calls = 0;
  heap_is_counted = true;
  body();
  heap_is_counted = false;
  return num_heap_calls;
}

#endif
