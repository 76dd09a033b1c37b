#include "engine/memory/allocator.h"

#include <fmt/format.h>

#include "engine/bytes.h"

namespace trainer {

namespace {

std::string describe(const AllocationFailure& failure) {
  return fmt::format("out of memory: tried to allocate {} with {} of {} reserved", format_bytes(failure.segment_bytes),
                     format_bytes(failure.statistics.reserved_bytes.all.current), format_bytes(failure.capacity));
}

}  // namespace

OutOfMemory::OutOfMemory(const AllocationFailure& failure)
    : Error(ExitCode::out_of_memory, describe(failure)), failure_(failure) {}

Block Allocator::allocate_at(std::int64_t, std::int64_t) {
  throw InternalError("internal error: this allocator chooses the places of its blocks itself");
}

bool Allocator::plan_segment(std::int64_t) {
  throw InternalError("internal error: this allocator has no planned segment beside others");
}

}  // namespace trainer
