#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/program/program.h"

namespace trainer {

// Note [Branches]
// ~~~~~~~~~~~~~~~
// No gradient of an activation needs that of a weight, so a device with Device::has_branches() computes the latter, and
// what is made of it, beside the former. Which calls of a recording can do so is settled by their addresses alone: a
// branch begins behind everything queued before it, and the first later call that touches what it writes, or writes
// what it reads, waits for it. Results have the bits that one queue gives.
//
// Memory that one call leaves to the next counts as any other, so branches need not a byte more; the price is that the
// gradient of an activation which takes over the memory of the activation, or scratch, waits for the weight's. Linear
// layers one behind the other mostly do that, and have few branches or none; blocks with norms and residual sums have
// them in about half of their layers.

struct MemoryRange {
  const std::byte* begin = nullptr;
  std::int64_t num_bytes = 0;
};

/// What may be computed beside the calls that follow.
enum class Branching : std::uint8_t {
  none,
  begins,   ///< the gradient of a weight
  follows,  ///< what works on such gradients (casts, sums, updates): only behind one that branched
};

/// What one call touches, workspace included.
struct CallMemory {
  std::vector<MemoryRange> reads, writes;
  Branching branching = Branching::none;
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
