#pragma once

#include <array>
#include <sstream>
#include <string>
#include <utility>

#include "engine/memory/memory_statistics.h"
#include "tests/memory/reference_allocator.h"

namespace trainer::test {

/// Empty where the statistics are what a model counted, else what differs.
template <typename Model>
std::string difference(const MemoryStatistics& statistics, const Model& model) {
  std::ostringstream text;
  const std::array<std::pair<const PooledCounter*, ReferenceAllocator::Quantity>, 9> pairs = {{
      {&statistics.allocation, ReferenceAllocator::allocation},
      {&statistics.segment, ReferenceAllocator::segment},
      {&statistics.active, ReferenceAllocator::active},
      {&statistics.inactive_split, ReferenceAllocator::inactive_split},
      {&statistics.requested_bytes, ReferenceAllocator::requested_bytes},
      {&statistics.allocated_bytes, ReferenceAllocator::allocated_bytes},
      {&statistics.reserved_bytes, ReferenceAllocator::reserved_bytes},
      {&statistics.active_bytes, ReferenceAllocator::active_bytes},
      {&statistics.inactive_split_bytes, ReferenceAllocator::inactive_split_bytes},
  }};
  for (const auto& [counter, quantity] : pairs) {
    const std::array<const Counter*, 3> pools = {&counter->all, &counter->small_pool, &counter->large_pool};
    for (int pool = 0; pool < 3; ++pool) {
      const Counter& actual = *pools[pool];
      const ReferenceAllocator::Count& expected = model.counts()[quantity][pool];
      if (actual.current != expected.current || actual.peak != expected.peak ||
          actual.allocated != expected.allocated || actual.freed != expected.freed)
        text << "counter " << quantity << " pool " << pool << ": " << actual.current << " " << actual.peak << " "
             << actual.allocated << " " << actual.freed << ", expected " << expected.current << " " << expected.peak
             << " " << expected.allocated << " " << expected.freed << "\n";
    }
  }
  if (statistics.num_alloc_retries != model.num_alloc_retries()) text << "num_alloc_retries\n";
  if (statistics.num_ooms != model.num_ooms()) text << "num_ooms\n";
  return text.str();
}

}  // namespace trainer::test
