#include "engine/plan/cost_model.h"

#include <algorithm>
#include <cmath>

#include "engine/errors.h"
#include "engine/ops/op_definition.h"
#include "engine/plan/step_routines.h"
#include "engine/program/routine_walk.h"

namespace trainer {
namespace {

void add(const Program& program, const Routine& routine, double times, const MachineRates& rates, StepTime& time) {
  for_each_call(program, routine, [&](const OpCall& call) {
    const double seconds = times * predicted_seconds(program, call, rates);
    time.seconds += seconds;
    if (definition_of(call.op.kind).role == Role::communication) time.communication += seconds;
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
  });
}

}  // namespace

std::int64_t workspace_bytes_of(const Program& program, const OpCall& call) {
  return call.workspace < 0 ? 0 : program.buffers[static_cast<std::size_t>(call.workspace)].num_bytes;
}

double executed_flops(const Op& op, std::int64_t workspace_bytes) {
  const OpDefinition& definition = definition_of(op.kind);
  const auto flops = static_cast<double>(definition.flops(op));
  if (definition.work != Work::convolution || rate_class_of(op, workspace_bytes) == RateClass::usual) return flops;
  // Of an input's gradient the output is what the op calls its output, else what it calls y.
  const Shape& image = (definition.role == Role::weight_gradient ? op.inputs[0] : op.outputs[0]).shape;
  constexpr std::int64_t tile = 4;
  const auto whole_tiles = [](std::int64_t size) { return (size + tile - 1) / tile * tile; };
  return flops * static_cast<double>(whole_tiles(image[1]) * whole_tiles(image[2])) /
         static_cast<double>(image[1] * image[2]);
}

double predicted_seconds(double flops, double num_bytes, const OpRate& rate) {
  return std::max(flops / rate.flops_per_second, num_bytes / rate.bytes_per_second) + rate.call_seconds;
}

double predicted_seconds(const Op& op, std::int64_t workspace_bytes, const MachineRates& rates) {
  if (definition_of(op.kind).role == Role::communication)
    return exchange_seconds(exchange_of(op), rates.links).value_or(0);
  return predicted_seconds(executed_flops(op, workspace_bytes), static_cast<double>(num_operand_bytes(op)),
                           rates.of(op, workspace_bytes));
}

double predicted_seconds(const Program& program, const OpCall& call, const MachineRates& rates) {
  return predicted_seconds(call.op, workspace_bytes_of(program, call), rates);
}

StepTime predict_step_time(const Program& program, const RunSchedule& schedule, const MachineRates& rates) {
  StepTime time;
  time.seconds = rates.step_seconds;
  for_each_first_step_routine(program, schedule,
                              [&](const Routine& routine, double times) { add(program, routine, times, rates, time); });
  require_internal(std::isfinite(time.seconds) && time.seconds > 0, "a step takes time");
  return time;
}

}  // namespace trainer
