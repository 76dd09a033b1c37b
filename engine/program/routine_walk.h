#pragma once

#include "engine/program/program.h"

// What a routine says, for those who read it in order and not by instruction.

namespace trainer {

/// Calls `visit(call)` for each call of a routine, in order.
template <typename Visit>
void for_each_call(const Program& program, const Routine& routine, Visit&& visit) {
  for (const Instruction& instruction : routine.instructions)
    if (instruction.kind == Instruction::Kind::run) visit(program.calls[static_cast<std::size_t>(instruction.index)]);
}

/// Calls `visit(buffer, is_allocated)` for each allocation and release of a routine, in order.
template <typename Visit>
void for_each_change(const Routine& routine, Visit&& visit) {
  for (const Instruction& instruction : routine.instructions)
    if (instruction.kind != Instruction::Kind::run)
      visit(static_cast<BufferId>(instruction.index), instruction.kind == Instruction::Kind::allocate);
}

}  // namespace trainer
