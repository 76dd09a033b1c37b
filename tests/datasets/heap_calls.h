#pragma once

#include <cstdint>
#include <functional>

// Sanitizers bring a heap of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TRAINER_COUNT_HEAP_CALLS

namespace trainer {

/// Calls of the whole process, libraries included, that ask the heap for memory while `body` runs.
std::int64_t heap_calls_of(const std::function<void()>& body);

}  // namespace trainer

#endif
