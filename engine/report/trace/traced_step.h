#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/findings/traced_plan.h"
#include "engine/plan/memory_trace.h"

namespace trainer {

/// When each action of a traced step happens, and what for. Times are predicted, in nanoseconds from the beginning of
/// the step: ops run one after the other, each for a nanosecond at least, and memory changes between them at once.
struct StepTimes {
  std::vector<std::int64_t> begin;  ///< by action
  std::vector<std::int64_t> end;    ///< by action; of what is no op its begin
  std::int64_t whole = 0;           ///< the end of the last
};

/// `call_seconds` by call of the program.
StepTimes times_of(const MemoryTrace& trace, const std::vector<double>& call_seconds);

/// By action: of an allocate the first call behind it that has an operand in the buffer, of an acquire or map that of
/// the allocate that it was for; -1: none.
std::vector<std::int32_t> served_calls(const MemoryTrace& trace, const Program& program);

/// The buffer that is allocated in the place of `buffer`: itself, or what it is a view of.
BufferId allocated_buffer(const Program& program, BufferId buffer);

/// "step 2", "the evaluation after step 2", "loading".
std::string traced_step_text(const MemoryTrace& trace);

}  // namespace trainer
