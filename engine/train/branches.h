#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/program/program.h"

namespace trainer {

// Note [Branches]
// ~~~~~~~~~~~~~~~
// Nothing in the backward pass reads the gradient of a weight, so a device with Device::has_branches() computes it
// beside the gradients of activations that follow. Which calls of a recording can do so is settled by their addresses
// alone: a branch begins behind everything queued before it, and the first later call that touches what it writes, or
// writes what it reads, waits for it. Memory that the plan gives from one call to the next counts as any other, so
// branches need not a byte more, and where the next call takes over the memory of a weight's gradient there is none.
// Results have the bits that one queue gives.

struct MemoryRange {
  const std::byte* begin = nullptr;
  std::int64_t num_bytes = 0;
};

/// What one call touches, workspace included.
struct CallMemory {
  std::vector<MemoryRange> reads, writes;
  bool may_branch = false;
};

/// At the addresses of its inputs, outputs and workspace, one after the other.
CallMemory memory_of(const OpCall& call, const void* const* operands, const Program& program);

/// How to queue one call.
struct BranchedCall {
  bool is_branch = false;
  std::int32_t joins = -1;  ///< the branch, by its call, that must have ended, with those before it; -1: none
};

/// By call, which are queued in this order. No branch but has a call beside it.
std::vector<BranchedCall> find_branches(std::span<const CallMemory> calls);

}  // namespace trainer
