#include "engine/plan/cost_model.h"

#include <algorithm>

#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

double num_bytes_of(const Op& op) {
  std::int64_t num_bytes = 0;
  for (const auto* operands : {&op.inputs, &op.outputs})
    for (const TensorType& type : *operands) num_bytes += type.num_bytes();
  return static_cast<double>(num_bytes);
}

void add(const Program& program, const Routine& routine, double times, const MachineRates& rates, StepTime& time) {
  for (const Instruction& instruction : routine.instructions) {
    if (instruction.kind != Instruction::Kind::run) continue;
    const OpCall& call = program.calls[instruction.index];
    const double seconds = times * predicted_seconds(call.op, rates);
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

double predicted_seconds(const Op& op, const MachineRates& rates) {
  const OpRate& rate = rates.of(op);
  const double computing = static_cast<double>(definition_of(op.kind).flops(op)) / rate.flops_per_second;
  return std::max(computing, num_bytes_of(op) / rate.bytes_per_second) + rate.call_seconds;
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
