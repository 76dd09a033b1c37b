#include "engine/plan/make_allocator.h"

#include "engine/memory/planned_allocator.h"

namespace trainer {

std::unique_ptr<Allocator> make_allocator(const Program& program, MemorySource& source,
                                          const CachingAllocatorOptions& options) {
  if (program.placement) return std::make_unique<PlannedAllocator>(source, program.placement->segment_bytes);
  return std::make_unique<CachingAllocator>(source, options);
}

}  // namespace trainer
