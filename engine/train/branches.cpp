#include "engine/train/branches.h"

#include <algorithm>

#include "engine/ops/op_definition.h"

namespace trainer {

namespace {

Branching branching_of(const OpCall& call, const Program& program) {
  const Role role = definition_of(call.op.kind).role;
  if (role == Role::weight_gradient) return Branching::begins;
  if (role == Role::update) return Branching::follows;
  const bool makes_gradients = std::all_of(call.outputs.begin(), call.outputs.end(), [&](BufferId output) {
    return program.buffers[output].category == Category::gradient;
  });
  return !call.outputs.empty() && makes_gradients ? Branching::follows : Branching::none;
}

bool overlap(const MemoryRange& one, const MemoryRange& other) {
  return one.begin < other.begin + other.num_bytes && other.begin < one.begin + one.num_bytes;
}

bool overlap(std::span<const MemoryRange> some, std::span<const MemoryRange> others) {
  return std::any_of(some.begin(), some.end(), [&](const MemoryRange& one) {
    return std::any_of(others.begin(), others.end(), [&](const MemoryRange& other) { return overlap(one, other); });
  });
}

/// Whether their order matters.
bool conflict(const CallMemory& one, const CallMemory& other) {
  return overlap(one.writes, other.writes) || overlap(one.writes, other.reads) || overlap(one.reads, other.writes);
}

/// Whether the first call behind `position` that is not in a branch itself may run beside it.
bool can_overlap(std::span<const CallMemory> calls, std::span<const BranchedCall> later, std::size_t position) {
  for (std::size_t next = position + 1; next < calls.size(); ++next)
    if (!later[next].is_branch) return !conflict(calls[position], calls[next]);
  return false;
}

}  // namespace

CallMemory memory_of(const OpCall& call, const void* const* operands, const Program& program) {
  CallMemory memory{.reads = {}, .writes = {}, .branching = branching_of(call, program)};
  const auto next_range = [&](BufferId buffer) {
    return MemoryRange{static_cast<const std::byte*>(*operands++), program.buffers[buffer].num_bytes};
  };
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    (may_modify_input(call.op, static_cast<int>(i)) ? memory.writes : memory.reads)
        .push_back(next_range(call.inputs[i]));
  for (const BufferId output : call.outputs) memory.writes.push_back(next_range(output));
  if (call.workspace >= 0) memory.writes.push_back(next_range(call.workspace));
  return memory;
}

std::vector<BranchedCall> find_branches(std::span<const CallMemory> calls) {
  std::vector<BranchedCall> result(calls.size());
  for (std::size_t i = calls.size(); i-- > 0;)
    result[i].is_branch = calls[i].branching != Branching::none && can_overlap(calls, result, i);
  std::vector<std::size_t> running;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto last = std::find_if(running.rbegin(), running.rend(),
                                   [&](std::size_t branch) { return conflict(calls[branch], calls[i]); });
    if (calls[i].branching == Branching::follows && last == running.rend()) result[i].is_branch = false;
    if (result[i].is_branch) {
      running.push_back(i);
      continue;
    }
    if (last == running.rend()) continue;
    result[i].joins = static_cast<std::int32_t>(*last);
    running.erase(running.begin(), last.base());
  }
  return result;
}

}  // namespace trainer
