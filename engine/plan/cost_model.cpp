#include "engine/plan/cost_model.h"

#include <algorithm>

#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

void add(const Program& program, const Routine& routine, double times, const MachineRates& rates, StepTime& time) {
  for (const Instruction& instruction : routine.instructions) {
    if (instruction.kind != Instruction::Kind::run) continue;
    const OpCall& call = program.calls[instruction.index];
    const double seconds = times * predicted_seconds(program, call, rates);
    time.seconds += seconds;
    switch (call.phase) {
      case Phase::forward:
        time.forward += seconds;
        break;
      case Phase::recompute:
        time.recompute += seconds;
        break;
      case Phase::backward:
        time.backward += seconds;
        break;
      case Phase::update:
        time.update += seconds;
        break;
      case Phase::load:
      case Phase::eval:
        break;
    }
  }
}

}  // namespace

CallWork work_of(const Op& op, std::int64_t workspace_bytes) {
  std::int64_t num_bytes = 0;
  for (const auto* operands : {&op.inputs, &op.outputs})
    for (const TensorType& type : *operands) num_bytes += type.num_bytes();
  return {.flops = static_cast<double>(definition_of(op.kind).flops(op)),
          .bytes = static_cast<double>(num_bytes),
          .has_much_scratch = workspace_bytes > num_bytes};
}

std::int64_t workspace_bytes_of(const Program& program, const OpCall& call) {
  return call.workspace < 0 ? 0 : program.buffers[static_cast<std::size_t>(call.workspace)].num_bytes;
}

double predicted_seconds(const CallWork& work, const OpRate& rate) {
  const double computing = work.flops / (work.has_much_scratch ? rate.scratch_flops_per_second : rate.flops_per_second);
  return std::max(computing, work.bytes / rate.bytes_per_second) + rate.call_seconds;
}

double predicted_seconds(const Op& op, std::int64_t workspace_bytes, const MachineRates& rates) {
  return predicted_seconds(work_of(op, workspace_bytes), rates.of(op));
}

double predicted_seconds(const Program& program, const OpCall& call, const MachineRates& rates) {
  return predicted_seconds(call.op, workspace_bytes_of(program, call), rates);
}

StepTime predict_step_time(const Program& program, const RunSchedule& schedule, const MachineRates& rates) {
  StepTime time;
  time.seconds = rates.step_seconds;
  const Program::MicroBatch& whole = program.micro_batches.front();
  add(program, whole.first, 1, rates, time);
  add(program, whole.next, static_cast<double>(schedule.step(1).num_micro_batches - 1), rates, time);
  add(program, program.update, 1, rates, time);
  return time;
}

}  // namespace trainer
