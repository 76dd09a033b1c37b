#include "engine/plan/step_flops.h"

#include "engine/ops/op_definition.h"
#include "engine/plan/step_routines.h"
#include "engine/program/routine_walk.h"

namespace trainer {
namespace {

void add(const Program& program, const Routine& routine, double times, StepFlops& flops) {
  for_each_call(program, routine, [&](const OpCall& call) {
    const double of_call = times * static_cast<double>(definition_of(call.op.kind).flops(call.op));
    flops.total += of_call;
    if (call.phase == Phase::recompute) flops.recomputed += of_call;
  });
}

}  // namespace

StepFlops step_flops(const Program& program, const RunSchedule& schedule) {
  StepFlops flops;
  for_each_first_step_routine(program, schedule,
                              [&](const Routine& routine, double times) { add(program, routine, times, flops); });
  return flops;
}

}  // namespace trainer
