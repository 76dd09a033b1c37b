#include "engine/plan/step_flops.h"

#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

void add(const Program& program, const Routine& routine, double times, StepFlops& flops) {
  for (const Instruction& instruction : routine.instructions) {
    if (instruction.kind != Instruction::Kind::run) continue;
    const OpCall& call = program.calls[instruction.index];
    const double of_call = times * static_cast<double>(definition_of(call.op.kind).flops(call.op));
    flops.total += of_call;
    if (call.phase == Phase::recompute) flops.recomputed += of_call;
  }
}

}  // namespace

StepFlops step_flops(const Program& program, const RunSchedule& schedule) {
  StepFlops flops;
  const Program::MicroBatch& whole = program.micro_batches.front();
  add(program, whole.first, 1, flops);
  add(program, whole.next, static_cast<double>(schedule.step(1).num_micro_batches - 1), flops);
  add(program, program.update, 1, flops);
  return flops;
}

}  // namespace trainer
