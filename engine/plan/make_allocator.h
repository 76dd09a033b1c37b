#pragma once

#include <memory>

#include "engine/memory/caching_allocator.h"
#include "engine/program/program.h"

namespace trainer {

/// The allocator of a program, the same in its plan and in its run: one planned segment where the program's buffers
/// have places (memory.allocator: planned), and else the caching one with `options`, for which see
/// engine/plan/allocator_options.h. The source must outlive it.
std::unique_ptr<Allocator> make_allocator(const Program& program, MemorySource& source,
                                          const CachingAllocatorOptions& options);

}  // namespace trainer
