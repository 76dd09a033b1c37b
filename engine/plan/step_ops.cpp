#include "engine/plan/step_ops.h"

#include <algorithm>

#include "engine/ops/op_definition.h"
#include "engine/plan/cost_model.h"
#include "engine/plan/step_routines.h"
#include "engine/program/routine_walk.h"

namespace trainer {
namespace {

std::int64_t total_bytes(const std::vector<TensorType>& operands) {
  std::int64_t num_bytes = 0;
  for (const TensorType& type : operands) num_bytes += type.num_bytes();
  return num_bytes;
}

bool has_statistics(const Op& op) {
  if (op.kind == OpKind::conv2d) return attributes_of<Conv2dAttributes>(op).statistics;
  return op.kind == OpKind::batchnorm2d && attributes_of<BatchNorm2dAttributes>(op).given_sums;
}

StepOp describe(const Program& program, const OpCall& call, const MachineRates& rates) {
  return {.kind = call.op.kind,
          .phase = call.phase,
          .in_half = has_half_operand(call.op),
          .statistics = has_statistics(call.op),
          .flops = static_cast<double>(definition_of(call.op.kind).flops(call.op)),
          .input_bytes = total_bytes(call.op.inputs),
          .output_bytes = total_bytes(call.op.outputs),
          .workspace_bytes = workspace_bytes_of(program, call),
          .predicted_seconds = predicted_seconds(program, call, rates)};
}

bool are_alike(const StepOp& a, const StepOp& b) {
  return a.kind == b.kind && a.phase == b.phase && a.in_half == b.in_half && a.statistics == b.statistics &&
         a.flops == b.flops && a.input_bytes == b.input_bytes && a.output_bytes == b.output_bytes &&
         a.workspace_bytes == b.workspace_bytes && a.predicted_seconds == b.predicted_seconds;
}

}  // namespace

std::vector<StepOp> step_ops(const Program& program, const RunSchedule& schedule, const MachineRates& rates) {
  std::vector<StepOp> ops;
  for_each_first_step_routine(program, schedule, [&](const Routine& routine, double times) {
    if (times <= 0) return;
    for_each_call(program, routine, [&](const OpCall& call) {
      if (call.op.kind == OpKind::finish_exchange) return;
      const StepOp op = describe(program, call, rates);
      const auto known =
          std::find_if(ops.begin(), ops.end(), [&](const StepOp& other) { return are_alike(op, other); });
      StepOp& counted = known != ops.end() ? *known : ops.emplace_back(op);
      counted.num_calls += times;
    });
  });
  return ops;
}

}  // namespace trainer
