#include "engine/report/trace/traced_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainer {

StepTimes times_of(const MemoryTrace& trace, const std::vector<double>& call_seconds) {
  StepTimes times;
  times.begin.reserve(trace.actions.size());
  times.end.reserve(trace.actions.size());
  for (const MemoryAction& action : trace.actions) {
    times.begin.push_back(times.whole);
    if (action.kind == MemoryAction::Kind::run) {
      constexpr double nanoseconds = 1e9;
      const double seconds = call_seconds[static_cast<std::size_t>(action.index)];
      times.whole += std::max<std::int64_t>(1, std::llround(seconds * nanoseconds));
    }
    times.end.push_back(times.whole);
  }
  return times;
}

BufferId allocated_buffer(const Program& program, BufferId buffer) {
  while (program.buffers[buffer].view_of >= 0) buffer = program.buffers[buffer].view_of;
  return buffer;
}

std::vector<std::int32_t> served_calls(const MemoryTrace& trace, const Program& program) {
  std::vector<std::int32_t> served(trace.actions.size(), -1);
  std::vector<std::int64_t> waiting(program.buffers.size(), -1);  // by buffer: its allocate, while no call has had it
  for (std::size_t i = 0; i < trace.actions.size(); ++i) {
    const MemoryAction& action = trace.actions[i];
    if (action.kind == MemoryAction::Kind::allocate)
      waiting[static_cast<std::size_t>(action.index)] = static_cast<std::int64_t>(i);
    if (action.kind != MemoryAction::Kind::run) continue;
    const auto serve = [&](BufferId operand) {
      if (operand < 0) return;
      std::int64_t& allocate = waiting[static_cast<std::size_t>(allocated_buffer(program, operand))];
      if (allocate >= 0) served[static_cast<std::size_t>(allocate)] = action.index;
      allocate = -1;
    };
    const OpCall& call = program.calls[action.index];
    for (const BufferId operand : call.inputs) serve(operand);
    for (const BufferId operand : call.outputs) serve(operand);
    serve(call.workspace);
  }
  std::int32_t next = -1;
  for (std::size_t i = trace.actions.size(); i-- > 0;) {
    const MemoryAction::Kind kind = trace.actions[i].kind;
    if (kind == MemoryAction::Kind::allocate) next = served[i];
    if (kind == MemoryAction::Kind::acquire || kind == MemoryAction::Kind::map) served[i] = next;
  }
  return served;
}

std::string traced_step_text(const MemoryTrace& trace) {
  if (trace.evaluation)
    return trace.step == 0 ? "the evaluation before the first step"
                           : fmt::format("the evaluation after step {}", trace.step);
  return trace.step == 0 ? "loading" : fmt::format("step {}", trace.step);
}

}  // namespace trainer
