#pragma once

#include <cstdint>

namespace trainer::test {

/// Calls of operator new in this executable so far. The test executable of this folder replaces operator new.
std::int64_t num_heap_allocations();

}  // namespace trainer::test
