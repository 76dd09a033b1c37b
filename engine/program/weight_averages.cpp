#include "engine/program/weight_averages.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

/// Of a step on `graph` that trains; a running statistic where an op moves it.
bool changes(const Graph& graph, std::size_t parameter) {
  if (graph.parameters[parameter].is_weight) return graph.parameters[parameter].trainable;
  const ValueId value = graph.parameter_values[parameter];
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const GraphNode& node) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] == value && may_modify_input(node.op, static_cast<int>(i))) return true;
    return false;
  });
}

}  // namespace

void append_averages(Program& program, Scheduler& scheduler, const Experiment& experiment, const Graph& graph) {
  program.average_buffers.assign(program.parameters.size(), -1);
  if (experiment.average.type == AverageType::off) return;
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    const Parameter& parameter = program.parameters[p];
    if (parameter.is_frozen() || !changes(graph, p)) continue;
    const BufferId buffer =
        scheduler.add_buffer(parameter.name + ".average", parameter.layer, Category::optimizer_state, parameter.type);
    program.load.instructions.push_back({Instruction::Kind::allocate, buffer, parameter.layer, Phase::load});
    program.average_buffers[p] = buffer;
    if (const BufferId copy = program.copy_buffers[p]; copy >= 0)
      scheduler.append_call(program.lend_averages, cast_op(parameter.type, program.buffers[copy].type.dtype), {buffer},
                            {copy}, parameter.layer, Phase::eval);
  }
  append_averaging(program, scheduler, program.start_averages, Phase::load);
}

void append_averaging(Program& program, Scheduler& scheduler, Routine& routine, Phase phase) {
  std::vector<TensorType> types;
  std::vector<BufferId> operands;
  for (std::size_t p = 0; p < program.average_buffers.size(); ++p) {
    if (program.average_buffers[p] < 0) continue;
    types.push_back(program.parameters[p].type);
    operands.push_back(program.parameter_buffers[p]);
    operands.push_back(program.average_buffers[p]);
  }
  if (types.empty()) return;
  scheduler.append_call(routine, average_weights_op(types), std::move(operands), {}, no_layer, phase);
}

}  // namespace trainer
